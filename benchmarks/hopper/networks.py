"""A small network on pictures of digits, trained by visits and in the ways of other systems.

The others train on all data in one process (task-parallel), on all workers with one mean of the gradients per
batch (data-parallel), or on all workers with one mean of the models per epoch (model averaging).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from benchmarks.hopper.holding import all_of, note_memory, shard_of
from elastune.training.trainable import Trainable
from elastune.training.worker import Worker


class Network(Trainable):
    """Two layers, as in examples/hopping.py. `worker.data` are those of the partition."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.worker, self.config = worker, config
        self.batch, width = int(config["batch"]), int(config["width"])
        layers = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))
        self.model = self._shared(layers)
        self.rates = {"lr": float(config["lr"]), "momentum": float(config["momentum"])}
        self.optimizer = torch.optim.SGD(self.model.parameters(), **self.rates)

    def _shared(self, model: torch.nn.Module) -> torch.nn.Module:
        shared: torch.nn.Module = self.worker.wrap(model)
        return shared

    def step(self) -> dict[str, float]:
        return self._train(self._partition())

    def evaluate(self) -> dict[str, float]:
        return self._test(self._partition())

    def save(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for group in self.optimizer.param_groups:
            group.update(self.rates)

    def _partition(self) -> Any:
        note_memory(self.config["notes"], "", int(self.worker.partition or 0), self.worker.data)
        return self.worker.data

    def _train(self, data: Any) -> dict[str, float]:
        self.model.train()
        losses, rows = 0.0, 0
        for pictures, labels in self.worker.batches(_pair(data), self.batch):
            loss = torch.nn.functional.cross_entropy(self.model(pictures), labels, reduction="sum")
            self.optimizer.zero_grad()
            self.worker.backward(loss)
            self.optimizer.step()
            losses += loss.item()
            rows += len(labels)
        return {"loss": losses / max(1, rows)}

    def _test(self, data: Any) -> dict[str, float]:
        self.model.eval()
        pictures, labels = _pair(data)
        with torch.no_grad():
            return {"accuracy": (self.model(pictures).argmax(1) == labels).float().mean().item()}


class WholeNetwork(Network):
    """All data in this process; the order of the rows is drawn over all of them."""

    def step(self) -> dict[str, float]:
        notes = self.config["notes"]
        training, _ = all_of(self.config["training"], notes)
        validation, _ = all_of(self.config["validation"], notes)
        return {**self._train(training), **self._test(validation)}


class SharingNetwork(Network):
    """Each worker has its partitions, and takes its part of every batch from them."""

    def step(self) -> dict[str, float]:
        worker, notes = self.worker, self.config["notes"]
        mine, rows = shard_of(self.config["training"], notes, worker.rank, worker.size)
        validation, _ = shard_of(self.config["validation"], notes, worker.rank, worker.size)
        self.model.train()
        losses = [self._learn(*batch) for batch in self._batches(mine, rows // worker.size)]
        self._end_epoch()
        accuracy = worker.mean(self._test(validation)["accuracy"], weight=float(len(validation["labels"])))
        return {"loss": worker.mean(float(np.mean(losses))), "accuracy": float(accuracy)}

    def _batches(self, data: Any, rows: int) -> Iterator[tuple[Any, Any]]:
        """As many on each worker, so the last row of a worker that has one more is left out."""
        pictures, labels = _pair(data)
        draw = np.random.default_rng((self.worker.seed, self.worker.iteration, self.worker.rank))
        order = torch.from_numpy(draw.permutation(len(labels))[:rows])
        for chosen in order.split(self._share()):
            yield pictures[chosen], labels[chosen]

    def _share(self) -> int:
        return max(1, self.batch // self.worker.size)

    def _learn(self, pictures: Any, labels: Any) -> float:
        loss = torch.nn.functional.cross_entropy(self.model(pictures), labels)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
        self.optimizer.step()
        return float(loss)

    def _end_epoch(self) -> None:
        pass


class AveragingNetwork(SharingNetwork):
    """Each worker trains by itself with whole batches; then all have the mean of weights and momenta."""

    def _shared(self, model: torch.nn.Module) -> torch.nn.Module:
        return model.to(self.worker.device)

    def _share(self) -> int:
        return self.batch

    def _end_epoch(self) -> None:
        found = (each.get("momentum_buffer") for each in self.optimizer.state.values())
        momenta = [each for each in found if each is not None]
        with torch.no_grad():
            for tensor in (*self.model.parameters(), *momenta):
                tensor.copy_(self.worker.mean(tensor.clone()))


def _pair(data: Any) -> tuple[Any, Any]:
    return torch.as_tensor(data["pictures"]), torch.as_tensor(data["labels"])
