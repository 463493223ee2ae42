"""Iterations that sleep by a law: visiting partitions, with a copy of all data, or on all workers.

They do not import torch, so that eight workers boot in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.hopper.holding import all_of, note_memory, shard_of
from benchmarks.hopper.law import Law
from elastune.training.trainable import Trainable
from elastune.training.worker import Worker


class Sleeper(Trainable):
    """Takes as long as the law says and learns how many visits it had: the same metrics in any order."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.worker, self.config = worker, config
        self.law = Law(**{name: float(config[name]) for name in ("row_s", "reduce_s", "batch")})
        self.visits = 0
        self.weights = np.zeros(int(config["weights"]), dtype=np.uint8)

    def step(self) -> dict[str, float]:
        note_memory(self.config["notes"], "", int(self.worker.partition or 0), self.worker.data)
        return self._sleep(self.law.seconds(self.worker.rows or 0, 1), visits=1)

    def save(self) -> dict[str, Any]:
        return {"visits": self.visits, "weights": self.weights}

    def load(self, state: dict[str, Any]) -> None:
        self.visits, self.weights = state["visits"], state["weights"]

    def _sleep(self, seconds: float, *, visits: int) -> dict[str, float]:
        time.sleep(seconds)
        self.worker.sum(0)  # a gang that exchanges nothing is refused
        self.visits += visits
        return {"score": float(self.config["x"]) * self.visits}


class WholeSleeper(Sleeper):
    def step(self) -> dict[str, float]:
        _, rows = all_of(self.config["training"], self.config["notes"])
        return self._sleep(self.law.seconds(rows, 1), visits=1)


class SharingSleeper(Sleeper):
    """All workers train one model and add up the gradients of every batch."""

    def step(self) -> dict[str, float]:
        return self._sleep(self.law.seconds(self._rows(), self.worker.size), visits=self.worker.size)

    def _rows(self) -> int:
        worker = self.worker
        _, rows = shard_of(self.config["training"], self.config["notes"], worker.rank, worker.size)
        return rows


class AveragingSleeper(SharingSleeper):
    def step(self) -> dict[str, float]:
        return self._sleep(self.law.averaging_s(self._rows(), self.worker.size), visits=self.worker.size)


class HeavySleeper(Sleeper):
    """Copies a state into its own memory, as torch does."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.weights = np.empty(int(config["weights"]), dtype=np.uint8)

    def load(self, state: dict[str, Any]) -> None:
        self.visits = state["visits"]
        np.copyto(self.weights, state["weights"])
