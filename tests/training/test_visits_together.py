"""With few trials left one model trains on all workers, each with its own partitions: it learns what one
process would from the same global batches, put together by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from elastune.checkpoints.encoding import decode, encode
from elastune.data.dataset import Dataset
from elastune.data.partition_cache import SlotPartitions
from elastune.data.registering import register
from elastune.training.groups import Group
from elastune.training.recipe import open_recipe
from elastune.training.seeding import seed_libraries, shuffled
from elastune.training.trainable import Trainable
from elastune.training.visits import train_together
from elastune.training.worker import Worker, make_worker
from tests.training.gangs import Crew

SEED, EPOCHS = 11, 3
SHARES = ((0, 2, 4), (1, 3, 5))
"""Of two ranks. Partitions 4 and 5 are for validation."""


def write_data(folder: Path, rows: tuple[int, ...]) -> Dataset:
    """The last two for validation."""
    generator = np.random.default_rng(5)
    for number, count in enumerate(rows):
        kind = "training" if number < 4 else "validation"
        (folder / kind).mkdir(exist_ok=True, parents=True)
        inputs = generator.standard_normal((count, 6))
        np.savez(folder / kind / f"{number}.npz", x=inputs, y=(inputs[:, 0] > 0).astype(np.int64))
    return register(folder / "training", validation=folder / "validation")


def make_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 2)).double()


class Network(Trainable):
    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.worker, self.batch = worker, config["batch"]
        self.model = worker.wrap(make_model())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def step(self) -> Mapping[str, float]:
        total = 0.0
        for inputs, labels in self.worker.batches(self._data(), self.batch):
            self.optimizer.zero_grad()
            loss = functional.cross_entropy(self.model(inputs), labels, reduction="sum")
            self.worker.backward(loss)
            self.optimizer.step()
            total += loss.item()
        return {"loss": total / (self.worker.rows or 1)}

    def evaluate(self) -> Mapping[str, float]:
        inputs, labels = self._data()
        with torch.no_grad():
            return {"accuracy": float((self.model(inputs).argmax(1) == labels).double().mean())}

    def save(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def _data(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(self.worker.data["x"]), torch.from_numpy(self.worker.data["y"])


class OddOneOut(Network):
    """Rank 1 has other metrics."""

    def step(self) -> Mapping[str, float]:
        return {**super().step(), **({"more": 1.0} if self.worker.rank else {})}


def train(
    group: Group, user: type[Network], dataset: Dataset, batch: int
) -> tuple[list[dict[str, float]], bytes]:
    """On one rank, as a member of a gang does it."""
    worker = make_worker(group, seed=SEED, threads=1)
    training = open_recipe(user, name="network", metric="loss").start({"batch": batch}, worker, None)
    shelves = SlotPartitions(dataset, None, None)
    rows = []
    for worker.iteration in range(1, EPOCHS + 1):
        row = train_together(worker, training, shelves, SHARES[group.rank])
        assert row is not None
        rows.append(dict(row))
    return rows, encode(training.save())


def by_hand(dataset: Dataset, batch: int) -> tuple[list[dict[str, float]], torch.nn.Module]:
    """One process. Of every global batch each side gives a part, as large as its part of all the rows."""
    seed_libraries(SEED, 1)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = [dict(np.load(part.sources[0])) for part in (*dataset.training, *dataset.validation)]
    told = []
    for epoch in range(1, EPOCHS + 1):
        loss_sum, samples = 0.0, 0
        for numbers in zip(SHARES[0][:2], SHARES[1][:2], strict=True):
            sides = []
            for number in numbers:
                order = shuffled(len(data[number]["y"]), SEED, 0, epoch, 0, number)
                sides.append({key: column[order] for key, column in data[number].items()})
            counts = [len(side["y"]) for side in sides]
            steps = -(-sum(counts) // batch)
            for step in range(steps):
                pieces = [slice(n * step // steps, n * (step + 1) // steps) for n in counts]
                inputs, labels = (
                    torch.from_numpy(
                        np.concatenate([side[key][piece] for side, piece in zip(sides, pieces, strict=True)])
                    )
                    for key in ("x", "y")
                )
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(inputs), labels, reduction="sum")
                (loss / len(labels)).backward()
                optimizer.step()
                loss_sum, samples = loss_sum + loss.item(), samples + len(labels)
        right = [
            (model(torch.from_numpy(data[number]["x"])).argmax(1) == torch.from_numpy(data[number]["y"]))
            for number in (4, 5)
        ]
        told.append({"loss": loss_sum / samples, "accuracy": float(torch.cat(right).double().mean())})
    return told, model


@pytest.mark.parametrize(
    ("rows", "batch"),
    [((16, 16, 16, 16, 8, 8), 8), ((7, 31, 20, 3, 5, 11), 8), ((1, 40, 40, 1, 2, 3), 16), ((5,) * 6, 100)],
    ids=["even", "uneven", "very-uneven", "one-batch"],
)
def test_a_gang_with_partitions_learns_what_one_process_learns_from_the_same_batches(
    crew: Crew, tmp_path: Path, rows: tuple[int, ...], batch: int
) -> None:
    dataset = write_data(tmp_path, rows)
    results = crew.run(2, train, Network, dataset, batch)
    states = [decode(state)["model"] for _, state in results]
    torch.testing.assert_close(states[1], states[0], atol=0.0, rtol=0.0)
    assert results[0][0] == results[1][0]
    told, model = by_hand(dataset, batch)
    torch.testing.assert_close(dict(states[0]), dict(model.state_dict()), atol=1e-10, rtol=1e-9)
    for found, expected in zip(results[0][0], told, strict=True):
        assert found == pytest.approx(expected, rel=1e-9)


def test_ranks_that_tell_different_metrics_are_told_so(crew: Crew, tmp_path: Path) -> None:
    dataset = write_data(tmp_path, (8,) * 6)
    with pytest.raises(AssertionError, match="expected the same of all, since each has a part of the data"):
        crew.run(2, train, OddOneOut, dataset, 8)
