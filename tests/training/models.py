"""A tiny network on made-up data, written both ways; used in gangs of every size."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import torch
from torch.nn import functional

from elastune.training.trainable import Trainable
from elastune.training.worker import Worker

State = dict[str, Any]
SAMPLES = 43
"""Prime, so that no batch divides it: the last batch of 10 has 3 samples, fewer than a gang of 4."""


def make_data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(SAMPLES, 6, generator=generator, dtype=torch.float64)
    return inputs, (inputs[:, 0] + inputs[:, 1] ** 2 > 1.0).long()


def make_model() -> torch.nn.Module:
    """In double precision, so that what differs by rounding is far from what differs."""
    return torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 2)).double()


def make_optimizer(model: torch.nn.Module, config: Mapping[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)


def train_epoch(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, worker: Worker, config: Mapping[str, Any]
) -> float:
    """Returns the mean loss over all samples, which every rank knows."""
    data, batch, micro = make_data(), config["batch"], config.get("micro")
    total = 0.0
    if micro is None:
        for inputs, labels in worker.batches(data, batch):
            optimizer.zero_grad()
            loss_sum = functional.cross_entropy(model(inputs), labels, reduction="sum")
            worker.backward(loss_sum)
            optimizer.step()
            total += loss_sum.item()
    else:
        for micros in worker.batches(data, batch, micro=micro):
            optimizer.zero_grad()
            for inputs, labels in micros:
                losses = functional.cross_entropy(model(inputs), labels, reduction="none")
                worker.backward(losses)
                total += losses.sum().item()
            optimizer.step()
    return float(worker.sum(total)) / SAMPLES


class Network(Trainable):
    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.config, self.worker = config, worker
        self.model = worker.wrap(make_model())
        self.optimizer = make_optimizer(self.model, config)

    def step(self) -> Mapping[str, float]:
        return {"loss": train_epoch(self.model, self.optimizer, self.worker, self.config)}

    def save(self) -> State:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: State) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def network(
    config: Mapping[str, Any], worker: Worker, state: State | None
) -> Generator[tuple[Mapping[str, float], Callable[[], State]]]:
    model = worker.wrap(make_model())
    optimizer = make_optimizer(model, config)
    epoch = 0
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch = state["epoch"]

    def save() -> State:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}

    while epoch < config["epochs"]:
        epoch += 1
        yield {"loss": train_epoch(model, optimizer, worker, config)}, save
