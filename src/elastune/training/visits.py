"""One visit of a model to a partition, the same wherever it happens: in a run, or when a run is retraced.

The metrics of one iteration that is made of several visits: means by the rows of each partition.

A tally travels with the model from worker to worker, so that whoever has the last visit can tell the row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from elastune.training.groups import Solo
from elastune.training.recipe import Recipe
from elastune.training.running import Row, Training
from elastune.training.trainable import State
from elastune.training.worker import make_worker

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a visit is about."""

    data: Any
    partition: int
    rows: int
    iteration: int
    evaluates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under which it happens. With other threads or on another device sums of floats come out differently."""

    seed: int
    device: str = "cpu"
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class VisitOutcome(Generic[Result]):
    metrics: Row
    seconds: float
    """Of training, or evaluating, alone."""
    kept: Result


def make_visit(
    recipe: Recipe,
    config: Mapping[str, Any],
    state: State | None,
    shown: Shown,
    conditions: Conditions,
    keep: Callable[[Training], Result],
) -> VisitOutcome[Result] | None:
    """A new instance goes on from `state`; None: there was nothing left to learn.

    `keep` takes what is wanted of the training before it is closed.
    """
    worker = make_worker(Solo(), seed=conditions.seed, device=conditions.device, threads=conditions.threads)
    worker.show(shown.data, partition=shown.partition, rows=shown.rows)
    training = recipe.start(dict(config), worker, state)
    try:
        began = time.monotonic()
        worker.iteration = shown.iteration
        metrics = training.evaluate() if shown.evaluates else training.step()
        seconds = time.monotonic() - began
        return None if metrics is None else VisitOutcome(metrics, seconds, keep(training))
    finally:
        training.close()


_KINDS = ("training", "evaluation")


@dataclass(slots=True)
class RunningMeans:
    """Sums of value times rows, and of rows, by metric."""

    sums: dict[str, float] = field(default_factory=dict)
    rows: dict[str, float] = field(default_factory=dict)

    def add(self, metrics: Mapping[str, float], rows: float) -> None:
        for name, value in metrics.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * rows
            self.rows[name] = self.rows.get(name, 0.0) + rows

    def read(self) -> dict[str, float]:
        return {name: total / self.rows[name] for name, total in self.sums.items() if self.rows[name]}


@dataclass(slots=True)
class MetricTally:
    """Of training and of evaluation; where both tell the same metric, the evaluation's counts."""

    training: RunningMeans = field(default_factory=RunningMeans)
    evaluation: RunningMeans = field(default_factory=RunningMeans)
    unsaved_s: float = 0.0
    """Training since the last durable state."""

    def add(self, metrics: Mapping[str, float], rows: float, *, evaluates: bool) -> None:
        (self.evaluation if evaluates else self.training).add(metrics, rows)

    def row(self) -> dict[str, float]:
        return {**self.training.read(), **self.evaluation.read()}

    def plain(self) -> dict[str, Any]:
        """As it is kept in a checkpoint."""
        return {
            "training": [dict(self.training.sums), dict(self.training.rows)],
            "evaluation": [dict(self.evaluation.sums), dict(self.evaluation.rows)],
            "unsaved_s": self.unsaved_s,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        training, evaluation = (_means(plain[kind]) for kind in _KINDS)
        return cls(training, evaluation, float(plain["unsaved_s"]))


def _means(plain: Sequence[Mapping[str, float]]) -> RunningMeans:
    return RunningMeans(*(dict(each) for each in plain))
