"""Scripts with torch: an ordinary one, the same for gangs, and some that share only in part."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from elastune.training.trainable import Trainable
from elastune.training.worker import Worker

State = Mapping[str, Any]


def _data() -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
    return inputs, (inputs.sum(dim=1) > 0).long()


class OwnLoader(Trainable):
    """An ordinary script: a DataLoader, and loss.backward()."""

    shuffle = True

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.model = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config["lr"])
        self.loader = DataLoader(TensorDataset(*_data()), batch_size=16, shuffle=self.shuffle)

    def step(self) -> Mapping[str, float]:
        correct = 0
        for inputs, labels in self.loader:
            self.optimizer.zero_grad()
            scores = self.model(inputs)
            functional.cross_entropy(scores, labels).backward()
            self.optimizer.step()
            correct += int((scores.argmax(dim=1) == labels).sum())
        return {"accuracy": correct / 60}

    def save(self) -> State:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: State) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


SHARED_MODEL = torch.nn.Linear(4, 2)


class GlobalModel(OwnLoader):
    """Natively, each trial is a process with a model of its own."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.model = SHARED_MODEL
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config["lr"])


class OnItsGpu(OwnLoader):
    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.model = self.model.to("cuda")


class GangOfLoader(OwnLoader):
    """The same script with three changed lines."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.worker = worker
        self.model = worker.wrap(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config["lr"])
        self.loader = worker.loader(self.loader)

    def step(self) -> Mapping[str, float]:
        correct, batches = 0, 0
        for inputs, labels in self.loader:
            self.optimizer.zero_grad()
            scores = self.model(inputs)
            self.learn(scores, labels)
            self.optimizer.step()
            correct, batches = correct + int((scores.argmax(dim=1) == labels).sum()), batches + 1
        return {"accuracy": self.worker.sum(correct) / 60, "batches": batches}

    def learn(self, scores: torch.Tensor, labels: torch.Tensor) -> None:
        self.worker.backward(functional.cross_entropy(scores, labels))


class KeepsGradients(OwnLoader):
    """Accumulates gradients beyond the end of an iteration."""

    shuffle = False

    def step(self) -> Mapping[str, float]:
        for number, (inputs, labels) in enumerate(self.loader):
            functional.cross_entropy(self.model(inputs), labels).backward()
            if number == 1:
                self.optimizer.step()
                self.optimizer.zero_grad()
        return {"accuracy": self.model.weight[0, 0].item()}


class ForgetsAverage(OwnLoader):
    """Evaluates a moving average of its weights, which is not in the state."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.average = copy.deepcopy(self.model)

    def step(self) -> Mapping[str, float]:
        super().step()
        with torch.no_grad():
            for mean, weight in zip(self.average.parameters(), self.model.parameters(), strict=True):
                mean.mul_(0.9).add_(weight, alpha=0.1)
        return {"accuracy": self.average.weight[0, 0].item()}


class ForgetsMode(OwnLoader):
    """Evaluates in `eval` mode and never goes back."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config["lr"])

    def step(self) -> Mapping[str, float]:
        found = super().step()
        self.model.eval()
        return found


class TrainsAnother(OwnLoader):
    """After `load`, the optimizer has the parameters of the model that was there before."""

    def load(self, state: State) -> None:
        self.model = torch.nn.Linear(4, 2)
        super().load(state)


class ForgetsScaler(OwnLoader):
    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.scaler = torch.amp.GradScaler("cpu", growth_interval=3)

    def step(self) -> Mapping[str, float]:
        for inputs, labels in self.loader:
            self.optimizer.zero_grad()
            self.scaler.scale(functional.cross_entropy(self.model(inputs), labels)).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return {"accuracy": self.model.weight[0, 0].item()}


def average_of_a_function(config: Mapping[str, Any], worker: Worker, state: State | None) -> Any:
    model, optimizer = torch.nn.Linear(4, 2), None
    average, (inputs, labels) = copy.deepcopy(model), _data()
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    while True:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        with torch.no_grad():
            average.weight.mul_(0.9).add_(model.weight, alpha=0.1)
        yield (
            {"accuracy": average.weight[0, 0].item()},
            lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        )


class OwnBackward(GangOfLoader):
    """Two of the three changed lines."""

    def learn(self, scores: torch.Tensor, labels: torch.Tensor) -> None:
        functional.cross_entropy(scores, labels).backward()


class WrapsOneOfTwo(GangOfLoader):
    """A second model learns too, and each worker has its own."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.head = torch.nn.Linear(4, 2)
        self.second = torch.optim.SGD(self.head.parameters(), lr=config["lr"])

    def step(self) -> Mapping[str, float]:
        for inputs, labels in self.loader:
            self.optimizer.zero_grad()
            self.second.zero_grad()
            self.learn(self.model(inputs) + self.head(inputs), labels)
            self.optimizer.step()
            self.second.step()
        return {"accuracy": self.model.weight[0, 0].item()}


class MetricOfItsShare(GangOfLoader):
    """Divides what one worker got right by all samples."""

    def step(self) -> Mapping[str, float]:
        correct = 0
        for inputs, labels in self.loader:
            self.optimizer.zero_grad()
            scores = self.model(inputs)
            self.learn(scores, labels)
            self.optimizer.step()
            correct += int((scores.argmax(dim=1) == labels).sum())
        return {"accuracy": correct / 60 + 0.001 * self.worker.rank}


class SumsOnly(GangOfLoader):
    """Shares its figures and not its gradients."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        OwnLoader.setup(self, config, worker)
        self.worker = worker
        self.loader = worker.loader(self.loader)

    def learn(self, scores: torch.Tensor, labels: torch.Tensor) -> None:
        functional.cross_entropy(scores, labels).backward()


class SameData(GangOfLoader):
    """Shares the gradients of the same samples on every worker."""

    most_slots = 4
    shuffle = False

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        OwnLoader.setup(self, config, worker)
        self.worker = worker
        self.model = worker.wrap(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config["lr"])

    def step(self) -> Mapping[str, float]:
        return OwnLoader.step(self)


class MeanAsSum(GangOfLoader):
    """A mean loss where the sum is expected: a gang learns at another rate."""

    def step(self) -> Mapping[str, float]:
        for inputs, labels in self.worker.batches(_data(), 16):
            self.optimizer.zero_grad()
            self.learn(self.model(inputs), labels)
            self.optimizer.step()
        return {"accuracy": 0.5}


class FailsTogether(GangOfLoader):
    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        if worker.size > 1:
            raise RuntimeError("this model fits one worker only")
        super().setup(config, worker)


class CountsBatches(GangOfLoader):
    """Asks for each batch itself, so a pass that is cut short raises."""

    def step(self) -> Mapping[str, float]:
        batches = iter(self.loader)
        for _ in range(len(self.loader)):
            inputs, labels = next(batches)
            self.optimizer.zero_grad()
            self.learn(self.model(inputs), labels)
            self.optimizer.step()
        return {"accuracy": 0.5}
