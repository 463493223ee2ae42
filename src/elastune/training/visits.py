"""One visit of a model to a partition, or an epoch of a gang on all, the same in a run and in its replay.

An iteration is made of several visits: its metrics are means weighted by the rows of each partition. The
tally goes with the model from worker to worker, so the worker of the last visit can report the row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

from elastune.training.groups import Solo
from elastune.training.recipe import Recipe
from elastune.training.running import Row, Training
from elastune.training.trainable import State
from elastune.training.worker import Worker, make_worker

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    data: Any
    partition: int
    rows: int
    iteration: int
    evaluates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """With other threads or on another device, sums of floats differ."""

    seed: int
    device: str = "cpu"
    threads: int | None = None
    trial: int = 0


@dataclass(frozen=True, slots=True)
class VisitOutcome(Generic[Result]):
    metrics: Row
    seconds: float
    """Of training or evaluation alone."""
    kept: Result
    unused_rows: int = 0
    """Rows of the partition that the training left out, as far as its loops show: all, if it never asked for
    the partition."""


def make_visit(
    recipe: Recipe,
    config: Mapping[str, Any],
    state: State | None,
    shown: Shown,
    conditions: Conditions,
    keep: Callable[[Training], Result],
) -> VisitOutcome[Result] | None:
    """A new instance continues from `state`; None: nothing was left to train.

    `keep` is called with the training before it is closed.
    """
    worker = make_worker(
        Solo(),
        seed=conditions.seed,
        device=conditions.device,
        threads=conditions.threads,
        trial=conditions.trial,
    )
    worker.show(shown.data, partition=shown.partition, rows=shown.rows)
    training = recipe.start(dict(config), worker, state)
    try:
        began = time.monotonic()
        worker.iteration = shown.iteration
        metrics = training.evaluate() if shown.evaluates else training.step()
        seconds = time.monotonic() - began
        if metrics is None:
            return None
        return VisitOutcome(metrics, seconds, keep(training), _unused_rows(worker, shown.rows))
    finally:
        training.close()


def _unused_rows(worker: Worker, rows: int) -> int:
    if not worker.has_read_data:
        return rows
    return max(0, rows - worker.offered) if worker.offered else 0


_KINDS = ("training", "evaluation")
_ALL = ""
_ROUNDING = 1e-9


@dataclass(slots=True)
class RunningMeans:
    """Sums of value times rows, and of rows, by metric; the rows of all visits are under no name."""

    sums: dict[str, float] = field(default_factory=dict)
    rows: dict[str, float] = field(default_factory=dict)

    def add(self, metrics: Mapping[str, float], rows: float) -> None:
        self.rows[_ALL] = self.rows.get(_ALL, 0.0) + rows
        for name, value in metrics.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * rows
            self.rows[name] = self.rows.get(name, 0.0) + rows

    def read(self) -> dict[str, float]:
        return {name: total / self.rows[name] for name, total in self.sums.items() if self.rows[name]}

    def left_out(self) -> list[str]:
        """Metrics that some visits reported and others did not."""
        whole = self.rows.get(_ALL, 0.0)
        return [name for name in self.sums if self.rows[name] < whole * (1 - _ROUNDING)]


@dataclass(slots=True)
class MetricTally:
    """Of training and of evaluation; if both report a metric, the evaluation's counts."""

    training: RunningMeans = field(default_factory=RunningMeans)
    evaluation: RunningMeans = field(default_factory=RunningMeans)
    unsaved_s: float = 0.0
    """Training since the last durable state."""

    def add(self, metrics: Mapping[str, float], rows: float, *, evaluates: bool) -> None:
        (self.evaluation if evaluates else self.training).add(metrics, rows)

    def row(self) -> dict[str, float]:
        return {**self.training.read(), **self.evaluation.read()}

    def left_out(self) -> tuple[str, ...]:
        """Metrics of the row whose mean is not over all partitions."""
        evaluated = self.evaluation.read()
        trained = [name for name in self.training.left_out() if name not in evaluated]
        return tuple(sorted([*trained, *self.evaluation.left_out()]))

    def plain(self) -> dict[str, Any]:
        """As it is written to a checkpoint."""
        kinds = zip(_KINDS, (self.training, self.evaluation), strict=True)
        means = {kind: [dict(each.sums), dict(each.rows)] for kind, each in kinds}
        return {**means, "unsaved_s": self.unsaved_s}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        training, evaluation = (RunningMeans(*map(dict, plain[kind])) for kind in _KINDS)
        return cls(training, evaluation, float(plain["unsaved_s"]))


class LoadedPartition(Protocol):
    @property
    def data(self) -> Any: ...
    @property
    def rows(self) -> int: ...


class Partitions(Protocol):
    def take(self, partition: int, share: Sequence[int]) -> LoadedPartition: ...
    def is_validation(self, partition: int) -> bool: ...


def train_together(
    worker: Worker, training: Training, partitions: Partitions, share: Sequence[int]
) -> Row | None:
    """One iteration of a gang: members train on their own partitions in parallel, then on those left over,
    which all of them have. `share`: the partitions of this member, in order."""
    tally = MetricTally()
    if worker.sum(len(share)) != worker.size * len(share):
        raise RuntimeError(f"rank {worker.rank} has {len(share)} partitions; other ranks have not as many")
    for partition in share:
        loaded = partitions.take(partition, share)
        worker.show(loaded.data, partition=partition, rows=loaded.rows)
        evaluates = partitions.is_validation(partition)
        metrics = training.evaluate() if evaluates else training.step()
        if metrics is None:
            return None
        rows = loaded.rows if worker.all_show_it else worker.sum(loaded.rows)
        tally.add(_over_all(worker, metrics, loaded.rows), rows, evaluates=evaluates)
    return tally.row()


def _over_all(worker: Worker, metrics: Row, rows: int) -> dict[str, float]:
    names = sorted(metrics)
    if worker.sum(len(names)) != worker.size * len(names):
        raise RuntimeError(
            f"rank {worker.rank} gave the metrics {names}, other ranks gave others; expected the same of "
            "all, since each has a part of the data"
        )
    return {name: float(worker.mean(metrics[name], weight=float(rows))) for name in names}
