"""What a check finds where data are in partitions: trainings that ignore them, evaluations that learn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastune.checks.report import CheckFinding, CheckStatus
from elastune.data.dataset import Dataset
from elastune.data.splitting import split
from elastune.runtime.ray.messages import CodeReference
from elastune.training.trainable import Trainable
from elastune.training.worker import Worker
from tests.checks.looking import judged, order_of

X = np.arange(24, dtype=np.float32).reshape(12, 2)


class Right(Trainable):
    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.config, self.worker, self.weights, self.worst = config, worker, np.zeros(2), 0.0

    def learn(self, x: np.ndarray) -> None:
        for row in x:
            self.weights = self.weights + self.config["lr"] * row

    def step(self) -> dict[str, float]:
        self.learn(self.worker.data)
        return {"loss": 1.0}

    def evaluate(self) -> dict[str, float]:
        value = float(self.worker.data @ self.weights @ np.ones(len(self.worker.data)))
        self.worst = max(self.worst, value)  # a plan that depends on it may be a part of the state
        return {"accuracy": value}

    def save(self) -> dict[str, Any]:
        return {"weights": self.weights, "worst": self.worst}

    def load(self, state: dict[str, Any]) -> None:
        self.weights, self.worst = np.array(state["weights"]), state["worst"]


class ReadsInSetup(Right):
    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.mine = worker.data

    def step(self) -> dict[str, float]:
        self.learn(self.mine)
        return {"loss": 1.0}

    def evaluate(self) -> dict[str, float]:
        return {"accuracy": 1.0}


class IgnoresPartitions(Right):
    def step(self) -> dict[str, float]:
        self.learn(X)
        return {"loss": 1.0}

    def evaluate(self) -> dict[str, float]:
        return {"accuracy": 1.0}


class LearnsFromValidation(Right):
    def evaluate(self) -> dict[str, float]:
        self.learn(self.worker.data)
        return super().evaluate()


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return split(X, tmp_path / "data", partitions=2, validation=0.25, seed=0)


def findings(kind: type, dataset: Dataset, folder: Path) -> dict[str, CheckFinding]:
    script = CodeReference(
        name=kind.__name__, metric="accuracy", reference=f"{Path(__file__)}:{kind.__name__}"
    )
    order = order_of("good", folder, script=script, dataset=dataset)
    return judged(order, kind)[1]


@pytest.mark.parametrize("kind", [Right, ReadsInSetup])
def test_a_training_on_its_partition_is_fine(kind: type, dataset: Dataset, tmp_path: Path) -> None:
    assert "data" not in findings(kind, dataset, tmp_path)


def test_a_training_that_never_asks_for_its_partition_is_warned(dataset: Dataset, tmp_path: Path) -> None:
    found = findings(IgnoresPartitions, dataset, tmp_path)["data"]
    assert found.status is CheckStatus.WARNING
    assert found.text.startswith("the training never asked for worker.data")
    assert found.place is not None
    assert found.place.code == "def step(self) -> dict[str, float]:"


def test_an_evaluation_that_changes_the_weights_is_warned(dataset: Dataset, tmp_path: Path) -> None:
    found = findings(LearnsFromValidation, dataset, tmp_path)["data"]
    assert found.status is CheckStatus.WARNING
    assert found.text == "evaluate changes weights: models learn from the validation data"
