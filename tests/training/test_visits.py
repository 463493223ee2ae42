"""The proof that hopping is sequential SGD: a model that leaves after every partition, as bytes, learns bit
for bit what one learns that stays, and what a plain loop of torch learns from the same batches."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from elastune.checkpoints.encoding import decode, encode
from elastune.training.groups import Solo
from elastune.training.recipe import open_recipe
from elastune.training.seeding import seed_libraries, shuffled
from elastune.training.trainable import Trainable
from elastune.training.visits import Conditions, MetricTally, Shown, make_visit
from elastune.training.worker import Worker, make_worker

SEED, BATCH = 11, 8
ROWS = (20, 34, 8, 27)
"""Of the partitions: uneven, and most are no multiple of the batch."""
ORDERS = [(0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)]
"""One per epoch."""

Data = tuple[torch.Tensor, torch.Tensor]


def partition(number: int) -> Data:
    generator = torch.Generator().manual_seed(number)
    inputs = torch.randn(ROWS[number], 6, generator=generator)
    return inputs, (inputs[:, 0] * inputs[:, 1] > 0).long()


def make_model() -> torch.nn.Module:
    layers = [torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 2)]
    return torch.nn.Sequential(*layers)


def make_optimizer(model: torch.nn.Module, name: str) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.Adam(model.parameters(), lr=0.01)
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


class Network(Trainable):
    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.worker = worker
        self.model = worker.wrap(make_model())
        self.optimizer = make_optimizer(self.model, config["optimizer"])

    def step(self) -> Mapping[str, float]:
        self.model.train()
        total = 0.0
        for inputs, labels in self.worker.batches(self.worker.data, BATCH):
            self.optimizer.zero_grad()
            loss = functional.cross_entropy(self.model(inputs), labels, reduction="sum")
            self.worker.backward(loss)
            self.optimizer.step()
            total += loss.item()
        assert self.worker.rows is not None
        return {"loss": total / self.worker.rows}

    def save(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def hop(config: Mapping[str, Any], orders: Sequence[Sequence[int]]) -> tuple[bytes, list[dict[str, float]]]:
    """A new instance for every visit, and nothing but bytes between two of them."""
    recipe = open_recipe(Network, name="network", metric="loss")
    model: bytes | None = None
    rows = []
    for iteration, order in enumerate(orders, start=1):
        tally = MetricTally()
        for number in order:
            tally = MetricTally.of(decode(encode(tally.plain())))
            worker = make_worker(Solo(), seed=SEED)
            worker.show(partition(number), partition=number, rows=ROWS[number])
            training = recipe.start(config, worker, None if model is None else decode(model))
            worker.iteration = iteration
            metrics = training.step()
            assert metrics is not None
            tally.add(metrics, ROWS[number], evaluates=False)
            model = encode(training.save())
            training.close()
        rows.append(tally.row())
    assert model is not None
    return model, rows


def stay(config: Mapping[str, Any], orders: Sequence[Sequence[int]]) -> bytes:
    """One instance, to which the partitions come."""
    worker = make_worker(Solo(), seed=SEED)
    training = open_recipe(Network, name="network", metric="loss").start(config, worker, None)
    for iteration, order in enumerate(orders, start=1):
        worker.iteration = iteration
        for number in order:
            worker.show(partition(number), partition=number, rows=ROWS[number])
            assert training.step() is not None
    return encode(training.save())


def loop(config: Mapping[str, Any], orders: Sequence[Sequence[int]]) -> dict[str, Any]:
    """As somebody would write it who knows of Elastune only where its random numbers come from: one stream
    for the weights, one per epoch and partition for masks, and one for the order of the samples."""
    seed_libraries(SEED, 1)
    model = make_model()
    optimizer = make_optimizer(model, config["optimizer"])
    for epoch, order in enumerate(orders, start=1):
        for number in order:
            inputs, labels = partition(number)
            seed_libraries(SEED, 2, epoch, 0, number)
            samples = torch.from_numpy(shuffled(len(inputs), SEED, 0, epoch, 0, number))
            for chosen in samples.split(BATCH):
                optimizer.zero_grad()
                loss_sum = functional.cross_entropy(model(inputs[chosen]), labels[chosen], reduction="sum")
                (loss_sum / len(chosen)).backward()
                optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def assert_equal(found: Any, expected: Any) -> None:
    """Every bit of weights, statistics and moments."""
    torch.testing.assert_close(found["model"], expected["model"], atol=0.0, rtol=0.0)
    torch.testing.assert_close(
        found["optimizer"]["state"], expected["optimizer"]["state"], atol=0.0, rtol=0.0
    )


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_a_model_that_hops_learns_bit_for_bit_what_one_learns_that_stays(optimizer: str) -> None:
    config = {"optimizer": optimizer}
    hopped, rows = hop(config, ORDERS)
    assert hopped == stay(config, ORDERS)
    assert len(rows) == len(ORDERS)
    assert rows[-1]["loss"] < rows[0]["loss"]


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_it_learns_bit_for_bit_what_a_plain_loop_over_the_same_batches_learns(optimizer: str) -> None:
    config = {"optimizer": optimizer}
    assert_equal(decode(hop(config, ORDERS)[0]), loop(config, ORDERS))


def test_the_order_of_the_partitions_matters_so_the_proof_proves_something() -> None:
    ends = {hop({"optimizer": "momentum"}, [order])[0] for order in itertools.permutations(range(3))}
    assert len(ends) == 6


def test_what_a_visit_draws_depends_on_the_partition_and_not_on_when_it_is_visited() -> None:
    """So a visit that is made again, after another history, is the same visit."""

    def draws(order: Sequence[int]) -> dict[int, list[list[int]]]:
        worker = make_worker(Solo(), seed=SEED)
        worker.iteration = 2
        drawn = {}
        for number in order:
            worker.show(partition(number), partition=number, rows=ROWS[number])
            drawn[number] = [
                [int(index) for index in batch] for batch in worker.batches(torch.arange(ROWS[number]), BATCH)
            ]
        return drawn

    assert draws((0, 1, 2)) == draws((2, 0, 1))


# Metrics of an epoch.

values = st.floats(-1e6, 1e6)
visits = st.lists(
    st.tuples(values, st.integers(1, 10_000), st.booleans()), min_size=1, max_size=12
)  # value, rows, evaluates


@given(visits, st.data())
def test_metrics_are_means_by_rows_wherever_the_tally_was_on_its_way(
    seen: list[tuple[float, int, bool]], data: st.DataObject
) -> None:
    tally = MetricTally()
    for value, rows, evaluates in seen:
        if data.draw(st.booleans()):  # it leaves with its model, and comes back
            tally = MetricTally.of(decode(encode(tally.plain())))
        name = "accuracy" if evaluates else "loss"
        tally.add({name: value}, rows, evaluates=evaluates)
    expected = {}
    for name, kind in (("loss", False), ("accuracy", True)):
        weighed = [(value, rows) for value, rows, evaluates in seen if evaluates is kind]
        if weighed:
            total = sum(rows for _, rows in weighed)
            expected[name] = sum(value * rows for value, rows in weighed) / total
    assert tally.row() == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(visits)
def test_a_metric_that_both_tell_is_that_of_the_evaluation(seen: list[tuple[float, int, bool]]) -> None:
    tally, told = MetricTally(), MetricTally()
    for value, rows, evaluates in seen:
        tally.add({"loss": value}, rows, evaluates=evaluates)
        if evaluates or not any(kind for *_, kind in seen):
            told.add({"loss": value}, rows, evaluates=evaluates)
    assert tally.row() == told.row()


def test_a_metric_that_only_some_visits_tell_is_the_mean_over_those() -> None:
    tally = MetricTally()
    tally.add({"loss": 1.0, "rare": 4.0}, 10, evaluates=False)
    tally.add({"loss": 2.0}, 30, evaluates=False)
    assert tally.row() == {"loss": 1.75, "rare": 4.0}


def test_a_metric_that_some_visits_leave_out_is_named() -> None:
    tally = MetricTally()
    tally.add({"loss": 1.0, "auc": 0.5}, 10, evaluates=False)
    tally.add({"loss": 3.0}, 10, evaluates=False)
    tally = MetricTally.of(decode(encode(tally.plain())))
    assert tally.row() == {"loss": 2.0, "auc": 0.5}
    assert tally.left_out() == ("auc",)
    tally.add({"auc": 0.7}, 5, evaluates=True)
    assert tally.left_out() == (), "the evaluation's value is of all validation data"


class Sparing(Trainable):
    """Trains on the first rows of a partition, as far as `part` says, or only on whole batches."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.config, self.worker = config, worker

    def step(self) -> dict[str, float]:
        if self.config.get("ignores"):
            return {"score": 1.0}
        inputs, labels = self.worker.data
        part, options = self.config.get("part"), {"drop_last": self.config.get("drop_last", False)}
        if self.config.get("batches", True):
            for number, _ in enumerate(self.worker.batches((inputs[:part], labels[:part]), BATCH, **options)):
                if number + 1 == self.config.get("most"):
                    break
        return {"score": 1.0}


@pytest.mark.parametrize(
    ("config", "unused"),
    [
        ({}, 0),
        ({"part": 10}, 10),
        ({"most": 1}, 12),
        ({"drop_last": True}, 0),
        ({"batches": False}, 0),
        ({"ignores": True}, 20),
    ],
)
def test_rows_that_a_training_leaves_out_are_counted(config: dict[str, Any], unused: int) -> None:
    shown = Shown(data=partition(0), partition=0, rows=ROWS[0], iteration=1)
    recipe = open_recipe(Sparing, name="Sparing")
    outcome = make_visit(recipe, config, None, shown, Conditions(seed=SEED), keep=lambda _: None)
    assert outcome is not None
    assert outcome.unused_rows == unused
