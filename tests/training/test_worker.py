"""What a worker gives to the user's code: its share of the batches, weights, sums."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import Dataset, TensorDataset

from elastune.errors import JobError
from elastune.training.batches import shares
from elastune.training.groups import Solo
from elastune.training.worker import Worker, make_worker, trial_seed
from tests.training.gangs import Crew

DATA = torch.arange(10.0)


class Rank:
    """A place in a gang of which the others are not there: enough for what needs no talking."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def agree(self, word: int) -> int:
        return word

    def total(self, value: Any) -> Any:
        return value * self.size

    def wrap(self, model: Any, options: Mapping[str, Any]) -> Any:
        return model

    def close(self) -> None: ...


def worker_of(rank: int = 0, size: int = 1, *, seed: int = 4, iteration: int = 1) -> Worker:
    worker = make_worker(Rank(rank, size), seed=seed)
    worker.iteration = iteration
    return worker


@given(
    count=st.integers(1, 60),
    batch=st.integers(1, 25),
    size=st.integers(1, 9),
    micro=st.none() | st.integers(1, 9),
)
def test_the_shares_of_all_ranks_are_the_batches_of_one_worker(
    count: int, batch: int, size: int, micro: int | None
) -> None:
    order = np.random.default_rng(count).permutation(count)
    of_one = list(shares(order, batch, 0, 1, drop_last=False))
    assert np.concatenate([share.rows for share in of_one]).tolist() == order.tolist()
    of_ranks = zip(*(shares(order, batch, rank, size, drop_last=False) for rank in range(size)), strict=True)
    for whole, parts in zip(of_one, of_ranks, strict=True):
        assert np.concatenate([part.rows for part in parts]).tolist() == whole.rows.tolist()
        assert {part.total for part in parts} == {whole.rows.size}
        sizes = [part.rows.size for part in parts]
        assert max(sizes) - min(sizes) <= 1
        for part in parts:
            micros = part.micros(micro)
            assert np.concatenate(micros).tolist() == part.rows.tolist()
            assert len(micros) >= 1
            assert micro is None or max(rows.size for rows in micros) <= micro


def test_the_order_depends_on_seed_iteration_and_call_and_not_on_the_gang() -> None:
    def order(worker: Worker) -> list[float]:
        return [float(x) for batch in worker.batches(DATA, 4) for x in batch]

    first = order(worker_of())
    assert sorted(first) == DATA.tolist()
    assert order(worker_of()) == first
    assert order(worker_of(seed=5)) != first
    assert order(worker_of(iteration=2)) != first
    worker = worker_of()
    assert order(worker) == first
    second = order(worker)
    assert second != first
    worker.iteration = 2
    worker.iteration = 1
    assert [order(worker), order(worker)] == [first, second]
    shared = [[batch.tolist() for batch in worker_of(rank, 3).batches(DATA, 4)] for rank in range(3)]
    assert [x for parts in zip(*shared, strict=True) for part in parts for x in part] == first


def test_without_shuffling_the_order_stays_and_no_call_is_counted() -> None:
    worker = worker_of()
    assert [batch.tolist() for batch in worker.batches(DATA, 4, shuffle=False)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert len(list(worker.batches(DATA, 4, shuffle=False, drop_last=True))) == 2
    first = next(iter(worker.batches(DATA, 10))).tolist()
    assert first == next(iter(worker_of().batches(DATA, 10))).tolist()


class Pair(NamedTuple):
    x: Any
    y: Any


class Squares(Dataset[Any]):  # type: ignore[misc]
    """Without `__getitems__`, of numbers and texts in a dict."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.tensor([float(index)]), "y": index**2, "name": str(index)}


def test_every_kind_of_data_is_split_alike() -> None:
    x, y = torch.arange(5.0).reshape(5, 1), torch.arange(5) ** 2

    def rows(data: Any, rank: int) -> list[Any]:
        return list(worker_of(rank, 2).batches(data, 3, shuffle=False))

    for rank, expected in ((0, [[0.0, 1.0], [3.0]]), (1, [[2.0], [4.0]])):
        assert [batch.flatten().tolist() for batch in rows(x, rank)] == expected
        assert [batch.flatten().tolist() for batch in rows(x.numpy(), rank)] == expected
        for data in ((x, y), Pair(x, y), (x.numpy(), y.numpy()), TensorDataset(x, y)):
            batches = rows(data, rank)
            assert [batch[0].flatten().tolist() for batch in batches] == expected
            assert [batch[1].tolist() for batch in batches] == [[v * v for v in part] for part in expected]
        assert all(isinstance(batch, Pair) for batch in rows(Pair(x, y), rank))
        for data in ({"x": x, "y": y}, Squares()):
            batches = rows(data, rank)
            assert [batch["x"].flatten().tolist() for batch in batches] == expected
            assert [batch["y"].tolist() for batch in batches] == [[v * v for v in part] for part in expected]
    assert rows(Squares(), 1)[0]["name"] == ["2"]


def test_an_empty_share_has_the_shape_of_the_others() -> None:
    x, y = torch.zeros(5, 2), torch.zeros(5, dtype=torch.int64)
    for data in ((x, y), (x.numpy(), y.numpy()), TensorDataset(x, y)):
        *_, (inputs, labels) = worker_of(2, 3).batches(data, 3)
        assert (tuple(inputs.shape), tuple(labels.shape)) == ((0, 2), (0,))
        assert inputs.dtype in (torch.float32, np.float32)
    *_, empty = worker_of(2, 3).batches(Squares(), 3)
    assert (tuple(empty["x"].shape), empty["name"]) == ((0, 1), [])


def endless() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("data", "batch", "options", "message"),
    [
        (DATA, 0, {}, "batch is 0; expected a whole number of samples from 1"),
        (DATA, 2.5, {}, "batch is 2.5; expected a whole number"),
        (DATA, 4, {"micro": 0}, "micro is 0; expected a whole number of samples from 1"),
        ([DATA, DATA], 4, {}, "got a list; expected a tensor or an array, a tuple or a dict of them"),
        ([DATA, DATA], 4, {}, "; make a list of columns a tuple"),
        (endless(), 4, {}, "got a generator; expected a tensor"),
        (torch.tensor(1.0), 4, {}, "got a Tensor without dimensions"),
        ((DATA, DATA[:3]), 4, {}, "columns of different lengths (0: 10, 1: 3)"),
        ({"x": DATA, "y": DATA[:3]}, 4, {}, "columns of different lengths ('x': 10, 'y': 3)"),
        (DATA[:0], 4, {}, "got no samples"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_split_is_told_at_the_call(
    data: Any, batch: Any, options: Any, message: str
) -> None:
    with pytest.raises(JobError) as caught:
        worker_of().batches(data, batch, **options)
    assert message in str(caught.value)


# Backward.


def test_backward_gives_the_gradient_of_the_mean_of_the_whole_batch() -> None:
    weight = torch.zeros((), requires_grad=True)
    worker = worker_of()
    for x in worker.batches(DATA, 10):
        worker.backward((weight * x).sum())
    assert weight.grad is not None
    assert weight.grad.item() == pytest.approx(4.5)
    weight.grad = None
    for batch in worker.batches(DATA, 10, micro=3):
        for x in batch:
            worker.backward(weight * x)
    assert weight.grad is not None
    assert weight.grad.item() == pytest.approx(4.5)


def test_backward_outside_of_a_batch_is_refused() -> None:
    worker = worker_of()
    loss = torch.zeros((), requires_grad=True) * 1.0
    for expected in range(2):
        with pytest.raises(JobError, match=r"belongs into a loop over worker.batches"):
            worker.backward(loss)
        if not expected:
            list(worker.batches(DATA, 4))
            for _ in worker.batches(DATA, 4):
                break


def test_a_gang_needs_a_wrapped_model() -> None:
    worker = worker_of(0, 2)
    next(batches := worker.batches(DATA, 4))
    with pytest.raises(JobError, match=r"worker.backward needs a model from worker.wrap\(model\)"):
        worker.backward(torch.zeros((), requires_grad=True) * 1.0)
    batches.close()  # type: ignore[attr-defined]


def test_losses_of_another_length_are_refused() -> None:
    worker = worker_of()
    for _ in worker.batches(DATA, 5):
        with pytest.raises(JobError, match=r"got losses of shape \(3,\) for 5 samples; expected their sum"):
            worker.backward(torch.zeros(3, requires_grad=True) * 1.0)


def test_two_loops_at_once_are_refused_unless_their_batches_are_alike() -> None:
    worker = worker_of()
    weight = torch.zeros((), requires_grad=True)
    for _ in zip(worker.batches(DATA, 5), worker.batches(DATA, 5), strict=True):
        worker.backward(weight * 1.0)
    for _ in zip(worker.batches(DATA, 5), worker.batches(DATA, 2), strict=False):
        with pytest.raises(JobError, match=r"inside two loops over worker.batches"):
            worker.backward(weight * 1.0)
    for x in worker.batches(DATA, 5):
        list(worker.batches(DATA, 2, shuffle=False))
        worker.backward(weight * x)


@pytest.mark.parametrize("micro", [2, 4, 10])
def test_a_batch_of_micro_batches_cannot_be_mistaken_for_samples(micro: int) -> None:
    """The loop of those who add `micro` to what they had; with 4 there are two parts, as many as names."""
    worker = worker_of()
    with pytest.raises(JobError, match=r"was passed over without worker.backward; expected `for batch in"):
        for _x, _y in worker.batches((DATA, DATA), 8, micro=micro):
            pass
    with pytest.raises(JobError, match="was passed over without"):
        for _ in worker.batches(DATA, 8, micro=micro):
            pass
    with pytest.raises(JobError, match="was passed over without"):
        [list(batch) for batch in worker.batches(DATA, 8, micro=micro)]


# Sums, seeds, models.


def test_means_are_weighted_if_weights_are_given() -> None:
    worker = worker_of()
    assert worker.mean(3.0) == worker.mean(3.0, weight=5) == worker.sum(3.0) == 3.0
    assert math.isnan(worker.mean(3.0, weight=0))
    assert worker.mean(torch.tensor([1.0, 3.0]), weight=2).tolist() == [1.0, 3.0]


def in_a_gang(group: Any) -> dict[str, Any]:
    worker = make_worker(group, seed=1)
    worker.iteration = 1
    frozen = torch.nn.Linear(1, 1).requires_grad_(False)
    model = worker.wrap(torch.nn.BatchNorm1d(2))
    samples = next(iter(worker.batches(DATA, 5))).numel()
    return {
        "plain mean": worker.mean(float(worker.rank)),
        "weighted mean": worker.mean(float(worker.rank), weight=samples),
        "frozen": worker.wrap(frozen) is frozen,
        "keys": sorted(model.state_dict()),
        "attribute": model.num_features,
        "dropout": torch.rand(()).item(),
    }


def test_a_gang_has_means_and_models_that_look_like_the_one_inside(crew: Crew) -> None:
    first, second = crew.run(2, in_a_gang)
    assert first["plain mean"] == second["plain mean"] == 0.5
    assert first["weighted mean"] == pytest.approx(2 / 5)
    assert first["frozen"]
    assert first["keys"] == sorted(torch.nn.BatchNorm1d(2).state_dict())
    assert first["attribute"] == 2
    assert first["dropout"] != second["dropout"]


def test_seeds_of_trials_differ_and_fit_every_library() -> None:
    seeds = {trial_seed(run, trial) for run in range(20) for trial in range(50)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert trial_seed(7, 1) == trial_seed(7, 1)


def test_a_worker_says_where_it_stands() -> None:
    worker = make_worker(Solo(), seed=1)
    assert (worker.rank, worker.size, worker.seed, worker.device, worker.iteration) == (0, 1, 1, "cpu", 0)
    assert repr(worker) == "<worker 0 of 1 on cpu>"
    model = torch.nn.Linear(1, 1)
    assert worker.wrap(model) is model
