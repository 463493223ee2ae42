"""A network for hopping runs. Torch is imported before the first visit, as a seed needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from elastune.training.trainable import Trainable
from elastune.training.worker import Worker


class Learner(Trainable):
    """A small network with momentum: its weights are as they are only for the same sums in the same order."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.worker, self.x = worker, config["x"]
        layers = (torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
        self.model = worker.wrap(torch.nn.Sequential(*layers))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self) -> Mapping[str, float]:
        x = torch.tensor(self.worker.data["x"], dtype=torch.float32)[:, None] / 100
        for (rows,) in self.worker.batches((x,), 4):
            loss = ((self.model(rows) - rows.sin()) ** 2).sum()
            self.optimizer.zero_grad()
            self.worker.backward(loss)
            self.optimizer.step()
        return {"score": self.x + 0.001 * self.worker.iteration}

    def save(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
