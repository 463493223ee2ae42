"""Sixteen models over data that no worker holds whole: the digits of scikit-learn, inflated and partitioned.

    elastune run examples/hopping.yaml

The data stay where they are, the models hop from partition to partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from elastune.training.trainable import Trainable
from elastune.training.worker import Worker

_COPIES = 20  # 1,797 pictures are few; each comes in some noisy versions
_BATCH = 64


def digits() -> dict[str, np.ndarray]:
    """All of it, in memory once: Elastune splits it into partitions, by a seed."""
    pictures, labels = load_digits(return_X_y=True)
    noise = np.random.default_rng(0).normal(0.0, 2.0, (_COPIES, *pictures.shape))
    noisy = (pictures + noise).astype(np.float32).reshape(-1, pictures.shape[1]) / 16.0
    return {"pictures": noisy, "labels": np.tile(labels, _COPIES)}


class Hopper(Trainable):
    """`worker.data` are those of the partition that the model visits now."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.worker = worker
        width = int(config["width"])
        model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
        self.model = worker.wrap(model)
        self.rates = {"lr": config["lr"], "momentum": config["momentum"]}
        self.optimizer = torch.optim.SGD(self.model.parameters(), **self.rates)

    def step(self) -> dict[str, float]:
        """Train on one partition."""
        self.model.train()
        losses = 0.0
        for pictures, labels in self.worker.batches(self._data(), _BATCH):
            loss = nn.functional.cross_entropy(self.model(pictures), labels, reduction="sum")
            self.optimizer.zero_grad()
            self.worker.backward(loss)
            self.optimizer.step()
            losses += loss.item()
        return {"loss": losses / (self.worker.rows or 1)}

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """On one partition of the validation data."""
        self.model.eval()
        pictures, labels = self._data()
        return {"accuracy": (self.model(pictures).argmax(1) == labels).float().mean().item()}

    def save(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for group in self.optimizer.param_groups:
            group.update(self.rates)

    def _data(self) -> tuple[torch.Tensor, torch.Tensor]:
        data = self.worker.data
        return torch.tensor(data["pictures"]), torch.tensor(data["labels"])
