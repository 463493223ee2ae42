"""What trials learned: their rows in the order of time, and the best model there was at each moment."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from elastune.core.commands import Fork
from elastune.core.events import Config, Progressed, TrialCrashed, TrialsSampled
from elastune.exports import RowLine
from elastune.exports.columns import as_float
from elastune.place import TrialId
from elastune.runs.history.terms import HistoryTerms


class Point(NamedTuple):
    """The metric after an iteration. What was lost and trained again is there twice."""

    at_s: float
    iteration: int
    value: float


class Crash(NamedTuple):
    at_s: float
    error: str


class BestStep(NamedTuple):
    at_s: float
    value: float
    trial: TrialId
    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCourse:
    trial: TrialId
    config: Config
    points: tuple[Point, ...]
    kept: tuple[float, ...]
    """The metric after iterations 1, 2, ... of the state that the trial had in the end."""
    crashes: tuple[Crash, ...]
    parent: TrialId | None
    """The trial that it was forked from."""
    inherited: int
    """How many of the first values are the parent's."""


@dataclass(slots=True)
class _Trial:
    config: Config
    parent: TrialId | None = None
    inherited: int = 0
    points: list[Point] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    saved: int = 0
    crashes: list[Crash] = field(default_factory=list)


@dataclass(slots=True)
class Curve:
    """The job's metric by iteration, as it was the last time."""

    values: dict[int, float] = field(default_factory=dict)
    last: int = 0
    generation: int = 0

    def add(self, iteration: int, value: float | None) -> None:
        for lost in range(iteration, self.last + 1):
            self.values.pop(lost, None)
        self.last = iteration
        if value is not None:
            self.values[iteration] = value


class RowBook:
    """All rows as they were reported, also by gangs that were gone by then: what tables need. Where no table
    is wanted, nothing is kept."""

    def __init__(self, metric: str, *, is_kept: bool) -> None:
        self._metric = metric
        self._is_kept = is_kept
        self._curves: dict[TrialId, Curve] = {}
        self._rows: list[RowLine] = []
        self._changed: set[TrialId] = set()

    def fresh(self) -> list[RowLine]:
        """Those that came since it was last asked."""
        rows, self._rows = self._rows, []
        return rows

    def changed(self) -> set[TrialId]:
        """Trials of which something was told since it was last asked."""
        changed, self._changed = self._changed, set()
        return changed

    def curve(self, trial: TrialId) -> Curve:
        return self._curves.get(trial) or Curve()

    def touch(self, *trials: TrialId) -> None:
        if self._is_kept:
            self._changed.update(trials)

    def reported(self, event: Progressed) -> None:
        self.touch(event.trial)
        if not event.rows or not self._is_kept:
            return
        trial, generation = event.trial, event.generation
        curve = self._curves.setdefault(trial, Curve())
        is_late = generation < curve.generation  # news of a gang that has a successor
        curve.generation = max(generation, curve.generation)
        for iteration, at_s, metrics in event.rows:
            self._rows.append(RowLine(trial, iteration, at_s, metrics, generation))
            if not is_late:
                value = metrics.get(self._metric)
                curve.add(iteration, None if value is None else as_float(value))


class TrialBook:
    def __init__(self, terms: HistoryTerms) -> None:
        self._metric = terms.metric
        self._mode = terms.mode
        self._trials: dict[TrialId, _Trial] = {}
        self._forks: dict[TrialId, Fork] = {}
        """Asked for and not yet drawn."""
        self.best: list[BestStep] = []

    def sampled(self, event: TrialsSampled) -> None:
        for number, config in event.trials:
            trial = self._trials[number] = _Trial(config)
            fork = self._forks.pop(number, None)
            if fork is not None:
                trial.parent, trial.inherited = fork.parent, fork.iteration
                trial.values = self._trials[fork.parent].values[: fork.iteration]
                trial.saved = fork.iteration

    def forked(self, command: Fork) -> None:
        self._forks[command.trial] = command

    def progressed(self, event: Progressed) -> None:
        """A row without a finite metric ends the trial; it and those behind it do not count."""
        trial = self._trials[event.trial]
        for row in event.rows:
            value = row.metrics.get(self._metric)
            if not isinstance(value, int | float) or not _is_finite(value):
                break
            trial.values.append(value)
            trial.points.append(Point(row.at_s, row.iteration, value))
        for iteration in event.saved:
            if iteration <= len(trial.values):
                self._save(event.trial, iteration, event.at_s)

    def crashed(self, event: TrialCrashed) -> None:
        self._trials[event.trial].crashes.append(Crash(event.at_s, event.error))

    def save_all(self, number: TrialId, at_s: float) -> None:
        self._save(number, len(self._trials[number].values), at_s)

    def forget_unsaved(self, number: TrialId) -> None:
        trial = self._trials[number]
        del trial.values[trial.saved :]

    def courses(self) -> dict[TrialId, TrialCourse]:
        return {
            number: TrialCourse(
                trial=number,
                config=trial.config,
                points=tuple(trial.points),
                kept=tuple(trial.values),
                crashes=tuple(trial.crashes),
                parent=trial.parent,
                inherited=trial.inherited,
            )
            for number, trial in self._trials.items()
        }

    def _save(self, number: TrialId, iteration: int, at_s: float) -> None:
        trial = self._trials[number]
        trial.saved = max(trial.saved, iteration)
        if not iteration:
            return
        value = trial.values[iteration - 1]
        if not self.best or self._mode.better(value, self.best[-1].value):
            self.best.append(BestStep(at_s, value, number, iteration))


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False
