"""The trials of a run: rows in order of time, the best model at each time, and the entries of both tables.

One table has an entry per trial, the other one per trained iteration. `HistoryTerms` is what a history needs
beside the journal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

from elastune.core.commands import Fork
from elastune.core.events import Config, Progressed, TrialCrashed, TrialsSampled
from elastune.core.terms import RunTerms
from elastune.model.cluster import ClusterTerms
from elastune.model.ids import TrialId
from elastune.model.metric import Mode
from elastune.model.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTerms:
    metric: str
    mode: Mode
    cluster: ClusterTerms

    @classmethod
    def of(cls, terms: RunTerms) -> HistoryTerms:
        return cls(metric=terms.metric, mode=terms.mode, cluster=terms.cluster)


# For readers that need neither cost nor metric.
TIMES_ONLY = HistoryTerms(
    metric="", mode=Mode.MAX, cluster=ClusterTerms(slots_per_node=1, max_nodes=1, price_per_hour=0.0)
)


OVER = ("stopped", "finished", "failed")


class RowEntry(NamedTuple):
    """The metrics of one iteration. `generation` distinguishes the gangs of a trial."""

    trial: int
    iteration: int
    at_s: float
    metrics: Mapping[str, float]
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEntry:
    """A trial now. Times are seconds of the run; None: unknown, or not yet."""

    trial: int
    status: str
    iterations: int  # the last iteration trained, including the parent's
    final: float | None
    best: float | None  # the best value that has, or had, a checkpoint, as for the best model of the run
    best_iteration: int | None
    best_reported: float | None  # the best value of all iterations, saved or not
    started_s: float | None
    ended_s: float | None  # when it last held slots; None: it holds some now, or never did
    seconds: float  # time with slots
    slot_seconds: float
    cost: float  # slot time at the nodes' price, without boots, idle slots and minimum charges
    slots: int | None
    nodes: tuple[str, ...]  # nodes of its last gang
    parent: int | None
    crashes: int
    error: str | None
    checkpoint: str | None
    config: Config

    @property
    def is_over(self) -> bool:
        return self.status in OVER


def without_lost(rows: Iterable[RowEntry]) -> list[RowEntry]:
    """Each iteration of a trial once, in order of time: of iterations lost and repeated, the last version."""
    listed = list(rows)
    # Rows of a dissolved gang may arrive after those of its successor.
    order = sorted(range(len(listed)), key=lambda index: listed[index].generation)
    lowest: dict[int, int] = {}
    kept: list[int] = []
    for index in reversed(order):
        row = listed[index]
        if row.iteration < lowest.get(row.trial, row.iteration + 1):
            lowest[row.trial] = row.iteration
            kept.append(index)
    return in_order(listed[index] for index in sorted(kept))


def in_order(rows: Iterable[RowEntry]) -> list[RowEntry]:
    """By time, because trials report in batches."""
    return sorted(rows, key=lambda row: row.at_s)


def as_float(value: object) -> float:
    """An integer too large for a float is infinite; anything but a number is NaN."""
    if not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


class MetricPoint(NamedTuple):
    """The metric after an iteration. Iterations lost and repeated appear twice."""

    at_s: float
    iteration: int
    value: float


@dataclass(slots=True)
class MetricPoints(Sequence[MetricPoint]):
    """In the order of the journal."""

    times_s: list[float] = field(default_factory=list)
    iterations: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[MetricPoint]:
        return map(MetricPoint, self.times_s, self.iterations, self.values)

    @overload
    def __getitem__(self, index: int) -> MetricPoint: ...
    @overload
    def __getitem__(self, index: slice) -> MetricPoints: ...
    def __getitem__(self, index: int | slice) -> MetricPoint | MetricPoints:
        if isinstance(index, slice):
            return MetricPoints(self.times_s[index], self.iterations[index], self.values[index])
        return MetricPoint(self.times_s[index], self.iterations[index], self.values[index])


class Crash(NamedTuple):
    at_s: float
    error: str


class BestStep(NamedTuple):
    at_s: float
    value: float
    trial: TrialId
    iteration: int


@dataclass(slots=True, kw_only=True)
class TrialHistory:
    trial: TrialId
    config: Config
    points: MetricPoints = field(default_factory=MetricPoints)
    kept: list[float] = field(default_factory=list)  # the metric after iterations 1, 2, ... of its state
    saved: int = 0
    best: BestStep | None = None  # of its own iterations that were saved
    crashes: list[Crash] = field(default_factory=list)
    parent: TrialId | None = None  # the trial it was forked from
    inherited: int = 0  # the first values that are the parent's

    def report(self, rows: Rows) -> None:
        """A row without a finite metric ends the trial; it and later rows do not count."""
        points = self.points
        if rows.finite and rows.follow(len(self.kept)):
            self.kept += rows.finite
            points.values += rows.finite
            points.iterations += rows.iterations
            points.times_s += rows.times_s
            return
        for iteration, at_s, value in zip(rows.iterations, rows.times_s, rows.values, strict=True):
            if value is None or not math.isfinite(as_float(value)):
                break
            # As in the core: the last iteration of a call stands for all of them.
            self.kept.extend([value] * max(1, iteration - len(self.kept)))
            points.times_s.append(at_s)
            points.iterations.append(iteration)
            points.values.append(value)


@dataclass(slots=True)
class MetricCurve:
    """The job's metric by iteration; of repeated iterations, the last value."""

    values: dict[int, float] = field(default_factory=dict)
    last: int = 0
    generation: int = 0

    def extend(self, rows: Rows) -> None:
        if rows.finite and rows.follow(self.last):
            self.values.update(zip(rows.iterations, rows.finite, strict=True))
            self.last = rows.iterations[-1]
            return
        for iteration, value in zip(rows.iterations, rows.values, strict=True):
            self.add(iteration, None if value is None else as_float(value))

    def add(self, iteration: int, value: float | None) -> None:
        for lost in range(iteration, self.last + 1):
            self.values.pop(lost, None)
        self.last = iteration
        if value is not None:
            self.values[iteration] = value


class RowBook:
    """All rows as reported, for tables, including those of dissolved gangs. Without `is_kept`, nothing;
    without `is_listed`, only the curves."""

    def __init__(self, *, is_kept: bool, is_listed: bool) -> None:
        self._is_kept = is_kept
        self._is_listed = is_listed
        self._curves: dict[TrialId, MetricCurve] = {}
        self._rows: list[RowEntry] = []
        self._changed: set[TrialId] = set()

    def fresh(self) -> list[RowEntry]:
        """Rows added since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def changed(self) -> set[TrialId]:
        """Trials changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def curve(self, trial: TrialId) -> MetricCurve:
        return self._curves.get(trial) or MetricCurve()

    def touch(self, *trials: TrialId) -> None:
        if self._is_kept:
            self._changed.update(trials)

    def reported(self, event: Progressed, rows: Rows) -> None:
        self.touch(event.trial)
        if not event.rows or not self._is_kept:
            return
        trial, generation = event.trial, event.generation
        curve = self._curves.setdefault(trial, MetricCurve())
        is_late = generation < curve.generation  # from a gang that has a successor
        curve.generation = max(generation, curve.generation)
        if not is_late:
            curve.extend(rows)
        if self._is_listed:
            self._rows += (RowEntry(trial, *row, generation) for row in event.rows)


class TrialBook:
    def __init__(self, terms: HistoryTerms) -> None:
        self._mode = terms.mode
        self.histories: dict[TrialId, TrialHistory] = {}
        self._forks: dict[TrialId, Fork] = {}  # commanded, not yet sampled
        self.best: list[BestStep] = []

    def sampled(self, event: TrialsSampled) -> None:
        for number, config in event.trials:
            trial = self.histories[number] = TrialHistory(trial=number, config=config)
            fork = self._forks.pop(number, None)
            if fork is not None:
                trial.parent, trial.inherited = fork.parent, fork.iteration
                trial.kept = self.histories[fork.parent].kept[: fork.iteration]
                trial.saved = fork.iteration

    def forked(self, command: Fork) -> None:
        self._forks[command.trial] = command

    def progressed(self, event: Progressed, rows: Rows) -> None:
        trial = self.histories[event.trial]
        trial.report(rows)
        for iteration in event.saved:
            if iteration <= len(trial.kept):
                self._save(event.trial, iteration, event.at_s)

    def crashed(self, event: TrialCrashed) -> None:
        self.histories[event.trial].crashes.append(Crash(event.at_s, event.error))

    def save_all(self, number: TrialId, at_s: float) -> None:
        self._save(number, len(self.histories[number].kept), at_s)

    def forget_unsaved(self, number: TrialId) -> None:
        trial = self.histories[number]
        del trial.kept[trial.saved :]

    def _save(self, number: TrialId, iteration: int, at_s: float) -> None:
        trial = self.histories[number]
        trial.saved = max(trial.saved, iteration)
        if not iteration:
            return
        step = BestStep(at_s, trial.kept[iteration - 1], number, iteration)
        if iteration > trial.inherited and self._is_better(step, trial.best):
            trial.best = step
        if self._is_better(step, self.best[-1] if self.best else None):
            self.best.append(step)

    def _is_better(self, step: BestStep, than: BestStep | None) -> bool:
        return than is None or self._mode.better(step.value, than.value)
