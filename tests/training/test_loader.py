"""A torch DataLoader teaches gangs of any size what it teaches one; what cannot be split is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from elastune.errors import JobError
from elastune.training.groups import Group, Solo
from elastune.training.worker import Worker, make_worker
from tests.training.gangs import Crew
from tests.training.models import SAMPLES, make_data, make_model
from tests.training.test_worker import worker_of

EPOCHS = 2


class Halves(Sampler[int]):  # type: ignore[misc]  # torch is not type-checked
    """A sampler of the user's: random numbers of Python, drawn from the global generator."""

    def __iter__(self) -> Iterator[int]:
        return iter(random.sample(range(SAMPLES), 21))

    def __len__(self) -> int:
        return 21


class ByEpoch(Sampler[int]):  # type: ignore[misc]  # torch is not type-checked
    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(self.epoch)).tolist())

    def __len__(self) -> int:
        return SAMPLES


class Buckets(Sampler[list[int]]):  # type: ignore[misc]  # torch is not type-checked
    """Whole batches, of different sizes."""

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(SAMPLES).tolist()
        yield from (order[start : start + size] for start, size in ((0, 7), (7, 12), (19, 1), (20, 23)))

    def __len__(self) -> int:
        return 4


class Forgetful(Sampler[int]):  # type: ignore[misc]  # torch is not type-checked
    """Its order depends on how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __iter__(self) -> Iterator[int]:
        self.asked += 1
        return iter(range(self.asked % 3, SAMPLES))

    def __len__(self) -> int:
        return SAMPLES


def as_dict(samples: list[Any]) -> dict[str, Any]:
    inputs, labels = zip(*samples, strict=True)
    return {"x": torch.stack(inputs), "y": torch.stack(labels), "names": ["sample"] * len(samples)}


def make_loader(kind: str) -> DataLoader[Any]:
    data = TensorDataset(*make_data())
    weights = torch.arange(1.0, SAMPLES + 1)
    options: dict[str, dict[str, Any]] = {
        "shuffled": {"batch_size": 10, "shuffle": True},
        "in order, tail dropped": {"batch_size": 10, "drop_last": True},
        "collated": {"batch_size": 10, "shuffle": True, "collate_fn": as_dict},
        "with processes": {"batch_size": 10, "shuffle": True, "num_workers": 1, "persistent_workers": True},
        "weighted": {"batch_size": 8, "sampler": WeightedRandomSampler(weights.tolist(), 30)},
        "subset": {"batch_size": 8, "sampler": SubsetRandomSampler(range(5, 40))},
        "repeated": {"batch_size": 8, "sampler": RandomSampler(data, replacement=True, num_samples=19)},
        "own sampler": {"batch_size": 4, "sampler": Halves()},
        "own sampler by epoch": {"batch_size": 10, "sampler": ByEpoch()},
        "own batches": {"batch_sampler": Buckets()},
        "batches of torch": {"batch_sampler": BatchSampler(RandomSampler(data), 10, drop_last=True)},
    }  # fmt: skip
    return DataLoader(data, **options[kind])


KINDS = (
    "shuffled", "in order, tail dropped", "collated", "weighted", "subset", "repeated",
    "own sampler", "own sampler by epoch", "own batches", "batches of torch",
)  # fmt: skip


def train(group: Group, kind: str, how: str) -> tuple[list[Any], float, int]:
    """The weights after some epochs, the mean loss over all samples of the last one, and its batches."""
    worker = make_worker(group, seed=11, threads=1)
    worker.enter_setup()
    model = worker.wrap(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = worker.loader(make_loader(kind))
    total, samples, batches = 0.0, 0, 0
    for worker.iteration in range(1, EPOCHS + 1):
        total, samples, batches = 0.0, 0, 0
        for batch in loader:
            inputs, labels = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch
            optimizer.zero_grad()
            loss = backward(worker, model(inputs), labels, how)
            optimizer.step()
            total, samples, batches = total + loss, samples + len(labels), batches + 1
    mean_loss = worker.sum(total) / worker.sum(samples)
    assert batches == len(loader)
    return [each.detach().numpy() for each in model.parameters()], mean_loss, batches


def backward(worker: Worker, scores: torch.Tensor, labels: torch.Tensor, how: str) -> float:
    """Returns the sum of the losses."""
    losses = functional.cross_entropy(scores, labels, reduction="none")
    if how == "mean":
        worker.backward(functional.cross_entropy(scores, labels))
    elif how == "each":
        worker.backward(losses)
    else:
        weights = torch.tensor([1.0, 5.0], dtype=scores.dtype)
        mean = functional.cross_entropy(scores, labels, weight=weights)
        worker.backward(mean, weight=float(weights[labels].sum()))
    return float(losses.sum().item())


@pytest.mark.parametrize("kind", KINDS)
def test_gangs_of_any_size_learn_from_a_data_loader_what_one_worker_learns(crew: Crew, kind: str) -> None:
    weights, loss, batches = train(Solo(), kind, "mean")
    for size in (2, 3):
        for of_rank, loss_of_rank, batches_of_rank in crew.run(size, train, kind, "mean"):
            torch.testing.assert_close(of_rank, weights, atol=1e-10, rtol=1e-9)
            assert loss_of_rank == pytest.approx(loss, rel=1e-9)
            assert batches_of_rank == batches


@pytest.mark.parametrize("how", ["each", "by class"])
def test_one_loss_per_sample_and_a_mean_with_weights_are_weighted_right(crew: Crew, how: str) -> None:
    weights, _, _ = train(Solo(), "own batches", how)
    for of_rank, _, _ in crew.run(3, train, "own batches", how):
        torch.testing.assert_close(of_rank, weights, atol=1e-10, rtol=1e-9)


def test_a_batch_smaller_than_the_gang_leaves_some_workers_without_samples(crew: Crew) -> None:
    for kind in ("shuffled", "collated"):  # 43 samples: 3 of them in the last batch
        weights, loss, _ = train(Solo(), kind, "mean")
        of_ranks = crew.run(4, train, kind, "mean")
        for of_rank, loss_of_rank, _ in of_ranks:
            torch.testing.assert_close(of_rank, weights, atol=1e-10, rtol=1e-9)
            assert loss_of_rank == pytest.approx(loss, rel=1e-9)


def test_processes_that_read_data_change_nothing(crew: Crew) -> None:
    weights, _, _ = train(Solo(), "shuffled", "mean")
    for of_rank, _, _ in crew.run(2, train, "with processes", "mean"):
        torch.testing.assert_close(of_rank, weights, atol=1e-10, rtol=1e-9)


def test_one_worker_learns_what_the_plain_loop_learns() -> None:
    """`worker.loader` and `worker.backward(loss)` change nothing of an ordinary script on one slot."""

    def plain(loader: Any, back: Any) -> list[torch.Tensor]:
        torch.manual_seed(3)
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, labels in loader:
            optimizer.zero_grad()
            back(functional.cross_entropy(model(inputs), labels))
            optimizer.step()
        return [each.detach() for each in model.parameters()]

    worker = worker_of()
    data = DataLoader(TensorDataset(*make_data()), batch_size=10)
    ours = plain(worker.loader(data), worker.backward)
    torch.testing.assert_close(ours, plain(data, lambda loss: loss.backward()), atol=0.0, rtol=0.0)


def test_the_order_is_new_in_each_iteration_and_repeats_with_seed_and_iteration() -> None:
    def order(iteration: int, seed: int = 4) -> list[int]:
        worker = worker_of(iteration=iteration, seed=seed)
        loader = DataLoader(range(20), batch_size=6, sampler=RandomSampler(range(20)))
        return [int(each) for batch in worker.loader(loader) for each in batch]

    assert sorted(order(1)) == list(range(20))
    assert order(1) == order(1)
    assert len({tuple(order(1)), tuple(order(2)), tuple(order(1, seed=5))}) == 3
    worker = worker_of(iteration=1)
    as_batches = [int(each) for batch in worker.batches(torch.arange(20), 6) for each in batch]
    assert order(1) == as_batches


def test_a_sampler_does_not_disturb_the_random_numbers_of_the_training() -> None:
    worker = worker_of()
    worker.enter_iteration()
    before = torch.get_rng_state()
    loader = worker.loader(make_loader("own sampler"))
    next(iter(loader))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loader_has_a_length_and_its_data_set() -> None:
    data = make_loader("own batches")
    loader = worker_of().loader(data)
    assert len(loader) == 4
    assert loader.dataset is data.dataset


def sequence() -> Dataset[Any]:
    return TensorDataset(torch.arange(SAMPLES))


class Stream(IterableDataset[int]):  # type: ignore[misc]  # torch is not type-checked
    def __iter__(self) -> Iterator[int]:
        return iter(range(9))


class OwnLoop(DataLoader[Any]):  # type: ignore[misc]  # torch is not type-checked
    def __iter__(self) -> Any:
        return iter(())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: [1, 2], r"got \[1, 2\]; expected a torch DataLoader .* worker.batches"),
        (lambda: DataLoader(Stream(), batch_size=2), "IterableDataset.*__getitem__.*most_slots = 1"),
        (lambda: DataLoader(sequence(), batch_size=None), "batch_size=None.*batch_size=64"),
        (lambda: OwnLoop(sequence(), batch_size=2), "an __iter__ of its own.*collate_fn"),
        (
            lambda: DataLoader(sequence(), sampler=DistributedSampler(sequence(), num_replicas=2, rank=0)),
            "DistributedSampler, which splits the samples as well; expected none",
        ),
        (lambda: DataLoader(sequence(), sampler=Forgetful()), "Forgetful gives another order.*generator"),
    ],
)  # fmt: skip
def test_what_cannot_be_split_or_repeated_is_refused_with_what_to_write(make: Any, text: str) -> None:
    with pytest.raises(JobError, match=text):
        worker_of().loader(make())


def loop_over(group: Group, lengths: Mapping[int, int]) -> str:
    """Each rank has data of another length."""
    worker = make_worker(group, seed=1)
    worker.iteration = 1
    loader = DataLoader(range(lengths[worker.rank]), batch_size=4)
    try:
        list(worker.loader(loader))
    except JobError as error:
        return str(error)
    return "no error"


def test_workers_with_different_data_are_refused_instead_of_waiting_for_each_other(crew: Crew) -> None:
    for text in crew.run(2, loop_over, {0: 20, 1: 12}):
        assert "another order on each worker" in text


def test_a_batch_that_cannot_be_cut_to_no_samples_is_refused() -> None:
    worker = worker_of(rank=1, size=2)
    loader = DataLoader(range(1), batch_size=4, collate_fn=len)
    with pytest.raises(JobError, match="int cannot be cut to no samples; expected drop_last=True"):
        list(worker.loader(loader))


def test_an_empty_loader_is_refused() -> None:
    empty: DataLoader[Any] = DataLoader(sequence(), batch_size=50, drop_last=True)
    with pytest.raises(JobError, match="no samples"):
        list(worker_of().loader(empty))
    assert len(list(worker_of().loader(DataLoader(sequence(), sampler=SequentialSampler(range(3)))))) == 3
