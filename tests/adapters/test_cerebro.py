"""Cerebro's functions as a trainable: visits of partitions, each with a new object, as hopping does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from elastune.adapters.cerebro import from_functions
from elastune.checkpoints.encoding import decode, encode
from elastune.errors import JobError
from elastune.training.groups import Solo
from elastune.training.recipe import open_recipe
from elastune.training.worker import make_worker

torch = pytest.importorskip("torch")

CONFIG = {"lr": 0.02, "momentum": 0.9, "dropout": 0.1}


def partition(number: int) -> tuple[Any, Any]:
    x = np.random.default_rng(number).normal(size=(60, 3)).astype(np.float32)
    return x, x @ np.array([[1.0], [-2.0], [0.5]], dtype=np.float32)


def model_fn(config: Mapping[str, Any]) -> Any:
    layers = torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(config["dropout"])
    model = torch.nn.Sequential(*layers, torch.nn.Linear(8, 1))
    return model, torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"])


def train_fn(data: Any, model: Any, optimizer: Any, config: Mapping[str, Any]) -> dict[str, float]:
    model.train()
    x, y = (torch.tensor(column) for column in data)
    total = 0.0
    for rows in torch.randperm(len(x)).split(10):
        loss = torch.nn.functional.mse_loss(model(x[rows]), y[rows])
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += float(loss.detach()) * len(rows)
    return {"loss": total / len(x)}


class Place:
    """One slot: a new object for every visit, states as the bytes of checkpoints."""

    def __init__(self, user: Any) -> None:
        self.user = user

    def worker(self, number: int, epoch: int = 0, data: Any = None) -> Any:
        worker: Any = make_worker(Solo(), seed=7, threads=1)
        worker.data = partition(number) if data is None else data
        worker.partition, worker.rows = number, 60
        worker.iteration = epoch
        return worker

    def train(self, state: bytes | None, number: int, *, epoch: int = 1, config: Any = CONFIG) -> Any:
        worker = self.worker(number, epoch - 1)
        recipe = open_recipe(self.user, name="user")
        training = recipe.start(config, worker, None if state is None else decode(state))
        worker.iteration = epoch
        metrics = training.step()
        return metrics, encode(training.save())

    def opened(self, state: bytes | None, number: int, config: Any = CONFIG) -> Any:
        instance = self.user()
        instance.setup(config, self.worker(number))
        if state is not None:
            instance.load(decode(state))
        return instance


def test_a_model_that_hops_learns_as_if_it_had_stayed() -> None:
    place = Place(from_functions(model_fn, train_fn))
    first, state = place.train(None, 0)
    for epoch in range(2, 12):
        for number in range(3):
            _, state = place.train(state, number, epoch=epoch)
    assert place.opened(state, 3).evaluate()["loss"] < first["loss"] / 3

    torch.manual_seed(0)
    stayed = Place(from_functions(model_fn, train_fn)).opened(None, 0)
    moved = encode(stayed.save())
    for number in range(3):
        stayed.worker.data = partition(number)
        torch.manual_seed(number)
        stayed.step()
        hopped = place.opened(moved, number)
        torch.manual_seed(number)
        hopped.step()
        moved = encode(hopped.save())
    assert moved == encode(stayed.save())


def test_evaluation_by_the_training_function_changes_nothing() -> None:
    place = Place(from_functions(model_fn, train_fn))
    _, state = place.train(None, 0)
    instance = place.opened(state, 1)
    instance.parts[0][0].bias.requires_grad_(False)  # frozen by the user
    first, again = instance.evaluate(), instance.evaluate()
    assert first["loss"] == pytest.approx(again["loss"])  # no dropout; batches are drawn anew
    assert encode(instance.save()) == state
    assert [each.requires_grad for each in instance.model.parameters()][:3] == [True, False, True]
    assert instance.model.training
    assert instance.model.train(False) is instance.model
    assert not instance.model.training


def test_evaluation_by_a_function_of_its_own() -> None:
    def evaluate_fn(data: Any, model: Any, config: Mapping[str, Any], *, worker: Any) -> dict[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        x, y = (torch.tensor(column) for column in data)
        return {"error": torch.nn.functional.l1_loss(model(x), y), "from": worker.partition}

    def only_trains(data: Any, model: Any, optimizer: Any, config: Mapping[str, Any]) -> float:
        optimizer.step()
        return 0.0

    instance = Place(from_functions(model_fn, only_trains, evaluate_fn=evaluate_fn)).opened(None, 2)
    metrics = instance.evaluate()
    assert metrics["error"] > 0
    assert metrics["from"] == 2
    assert instance.step() == 0.0


def test_a_training_function_that_trains_in_evaluation_is_told() -> None:
    def always(data: Any, model: Any, optimizer: Any, config: Mapping[str, Any]) -> float:
        optimizer.zero_grad()
        return 0.0

    def backward(data: Any, model: Any, optimizer: Any, config: Mapping[str, Any]) -> float:
        model(torch.tensor(data[0])).sum().backward()
        return 0.0

    for function, seen in ((always, "AttributeError"), (backward, "RuntimeError")):
        instance = Place(from_functions(model_fn, function)).opened(None, 0)
        with pytest.raises(JobError, match=rf"{seen}.*only `if optimizer is not None`"):
            instance.evaluate()
        assert all(each.requires_grad for each in instance.model.parameters())
        assert instance.model.training


def test_the_config_decides_not_the_state() -> None:
    place = Place(from_functions(model_fn, train_fn))
    _, state = place.train(None, 0)
    other = place.opened(state, 1, CONFIG | {"lr": 0.01, "momentum": 0.5})
    (group,) = other.parts[1].param_groups
    assert (group["lr"], group["momentum"]) == (0.01, 0.5)
    assert other.parts[1].state_dict()["state"]  # what was learned is there
    _, later = place.train(state, 1, epoch=2, config=CONFIG | {"lr": 0.01})
    back = place.opened(later, 1)
    assert back.parts[1].param_groups[0]["lr"] == 0.02


def test_a_schedule_goes_on_in_proportion() -> None:
    def with_schedule(config: Mapping[str, Any]) -> Any:
        model, optimizer = model_fn(config)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)

    def train(data: Any, model: Any, others: Any, config: Mapping[str, Any]) -> dict[str, float]:
        optimizer, schedule = others
        metrics = train_fn(data, model, optimizer, config)
        schedule.step()
        return metrics

    place = Place(from_functions(with_schedule, train))
    _, state = place.train(None, 0)
    same, other = place.opened(state, 1), place.opened(state, 1, CONFIG | {"lr": 0.08})
    assert same.parts[1].param_groups[0]["lr"] == pytest.approx(0.01)
    assert other.parts[1].param_groups[0]["lr"] == pytest.approx(0.04)
    assert other.step()["loss"] > 0
    assert other.parts[1].param_groups[0]["lr"] == pytest.approx(0.02)


def test_anything_with_a_state_can_be_a_model() -> None:
    class Mean:
        def __init__(self) -> None:
            self.total = self.count = 0.0

        def state_dict(self) -> dict[str, float]:
            return {"total": self.total, "count": self.count}

        def load_state_dict(self, state: dict[str, float]) -> None:
            self.total, self.count = state["total"], state["count"]

    def train(data: Any, model: Mean, optimizer: None, config: Mapping[str, Any], worker: Any) -> float:
        if worker.iteration:
            model.total += float(data[0].sum())
            model.count += worker.rows
        return model.total / max(1.0, model.count)

    user = from_functions(lambda config: Mean(), train, input_fn=np.load, name="MeanOfAll")
    assert user.__name__ == "MeanOfAll"
    assert user.input_fn is np.load  # type: ignore[attr-defined]
    recipe = open_recipe(user, name="user", metric="mean")
    worker = Place(user).worker(0)
    training = recipe.start({}, worker, None)
    worker.iteration = 1
    metrics = training.step()
    assert metrics is not None
    assert metrics["mean"] == pytest.approx(partition(0)[0].sum() / 60)
    assert Place(user).opened(encode(training.save()), 1).evaluate() == pytest.approx(
        partition(0)[0].sum() / 60
    )


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(
        JobError, match=r"train_fn cannot be called as train_fn\(data, model, optimizer, config\)"
    ):
        from_functions(model_fn, lambda data, model: {})
    with pytest.raises(JobError, match="model_fn is 3; expected a function"):
        from_functions(3, train_fn)  # type: ignore[arg-type]
    with pytest.raises(JobError, match=r"returned Linear, int; expected model, or model, optimizer"):
        Place(from_functions(lambda config: (torch.nn.Linear(1, 1), 3), train_fn)).opened(None, 0)
    with pytest.raises(JobError, match="train_fn returned nothing"):
        Place(from_functions(model_fn, lambda data, model, optimizer, config: None)).opened(None, 0).step()  # type: ignore[arg-type,return-value]
    instance = Place(from_functions(model_fn, train_fn)).opened(None, 0)
    instance.worker.data = None
    with pytest.raises(JobError, match="`execution: hopper` and `data`"):
        instance.step()
