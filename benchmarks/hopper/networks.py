"""A small network on pictures of digits: visiting partitions, or with a copy of all data (task-parallel)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from benchmarks.hopper.holding import all_of, note_memory
from elastune.training.trainable import Trainable
from elastune.training.worker import Worker

BATCH = 64


class Network(Trainable):
    """Two layers, as in examples/hopping.py. `worker.data` are those of the partition."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.worker, self.config = worker, config
        width = int(config["width"])
        layers = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))
        self.model = worker.wrap(layers)
        self.rates = {"lr": float(config["lr"]), "momentum": float(config["momentum"])}
        self.optimizer = torch.optim.SGD(self.model.parameters(), **self.rates)

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
        for pictures, labels in self.worker.batches(_pair(data), BATCH):
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


def _pair(data: Any) -> tuple[Any, Any]:
    return torch.as_tensor(data["pictures"]), torch.as_tensor(data["labels"])
