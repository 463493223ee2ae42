"""The trials and rows of a run as lines of tables, event by event; of a journal, or of a run that goes on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from elastune.cluster import ClusterTerms
from elastune.core import AnyEvent, State
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.trials import Trial
from elastune.exports import RowLine, TrialLine
from elastune.exports.columns import as_float
from elastune.place import Gang, TrialId
from elastune.runs.result import phase_of


@dataclass(slots=True)
class _Stay:
    """The slots that a trial has or had, summed over its gangs. `gang` is the last one."""

    started_s: float
    gang: Gang
    generation: int
    since_s: float | None
    """When the present gang formed; None: there is none."""
    ended_s: float | None = None
    seconds: float = 0.0
    slot_seconds: float = 0.0

    def leave(self, at_s: float) -> None:
        if self.since_s is None:
            return
        self.seconds, self.slot_seconds = self.until(at_s)
        self.since_s, self.ended_s = None, at_s

    def until(self, now_s: float) -> tuple[float, float]:
        """Seconds and slot-seconds so far."""
        more_s = 0.0 if self.since_s is None else now_s - self.since_s
        return self.seconds + more_s, self.slot_seconds + more_s * len(self.gang)


@dataclass(slots=True)
class _Curve:
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


class Chronicle:
    """What the state of a run does not keep: all rows, and who had slots when."""

    def __init__(self, cluster: ClusterTerms, metric: str) -> None:
        self._usd_per_s = cluster.slot_usd_per_s
        self._metric = metric
        self._stays: dict[TrialId, _Stay] = {}
        self._present: dict[TrialId, _Stay] = {}
        self._curves: dict[TrialId, _Curve] = {}
        self._rows: list[RowLine] = []

    def take(self, event: AnyEvent, commands: Iterable[object]) -> None:
        """First what happened, then what was commanded about it."""
        self._happens(event)
        for command in commands:
            match command:
                case do.Train():
                    self._train(command, event.at_s)
                case do.Stop(trial=trial):
                    self._leave(trial, event.at_s)

    def rows(self) -> list[RowLine]:
        """Those that came since it was last asked."""
        rows, self._rows = self._rows, []
        return rows

    def line(self, state: State, trial: Trial, checkpoint: str | None = None) -> TrialLine:
        """A trial as it stands. `checkpoint`: where its newest one is."""
        stay = self._stays.get(trial.number)
        curve = self._curves.get(trial.number) or _Curve()
        best = _best(state, curve.values)
        seconds, slot_seconds = (0.0, 0.0) if stay is None else stay.until(state.now_s)
        return TrialLine(
            trial=trial.number,
            status=phase_of(state, trial).value,
            iterations=max(curve.last, trial.inherited),
            final=curve.values.get(curve.last),
            best=None if best is None else curve.values[best],
            best_iteration=best,
            started_s=None if stay is None else stay.started_s,
            ended_s=None if stay is None or stay.since_s is not None else stay.ended_s,
            seconds=seconds,
            slot_seconds=slot_seconds,
            cost=slot_seconds * self._usd_per_s,
            slots=None if stay is None else len(stay.gang),
            nodes=() if stay is None else tuple(dict.fromkeys(slot.node for slot in stay.gang)),
            parent=trial.parent,
            crashes=trial.crashes,
            error=trial.error,
            checkpoint=checkpoint,
            config=trial.config,
        )

    def _happens(self, event: AnyEvent) -> None:
        at_s = event.at_s
        match event:
            case ev.Progressed(trial=trial, generation=generation):
                self._progressed(event)
                if isinstance(event, ev.TrialCrashed | ev.GangLost | ev.VisitEnded):
                    self._leave(trial, at_s, generation)
            case ev.TrialPaused(trial=trial, generation=generation):
                self._leave(trial, at_s, generation)
            case ev.NodeLost(node=node):
                there = [
                    trial
                    for trial, stay in self._present.items()
                    if any(slot.node == node for slot in stay.gang)
                ]
                for trial in there:
                    self._leave(trial, at_s)
            case ev.Resumed():
                for trial in tuple(self._present):
                    self._leave(trial, at_s)

    def _progressed(self, event: ev.Progressed) -> None:
        if not event.rows:
            return
        trial, generation = event.trial, event.generation
        curve = self._curves.setdefault(trial, _Curve())
        is_late = generation < curve.generation  # news of a gang that has a successor
        curve.generation = max(generation, curve.generation)
        for iteration, at_s, metrics in event.rows:
            self._rows.append(RowLine(trial, iteration, at_s, metrics, generation))
            if not is_late:
                value = metrics.get(self._metric)
                curve.add(iteration, None if value is None else as_float(value))

    def _train(self, command: do.Train, at_s: float) -> None:
        """A new gang, or a longer lease for the present one."""
        stay = self._stays.get(command.trial)
        if stay is None:
            stay = _Stay(at_s, command.gang, command.generation, at_s)
            self._stays[command.trial] = self._present[command.trial] = stay
        elif stay.since_s is None or stay.generation != command.generation:
            stay.leave(at_s)
            stay.gang, stay.generation, stay.since_s = command.gang, command.generation, at_s
            self._present[command.trial] = stay

    def _leave(self, trial: TrialId, at_s: float, generation: int | None = None) -> None:
        """`generation`: of the gang that is gone; None: whichever is there."""
        stay = self._present.get(trial)
        if stay is not None and generation in (None, stay.generation):
            stay.leave(at_s)
            del self._present[trial]


def _best(state: State, values: Mapping[int, float]) -> int | None:
    """The first iteration with the best finite value."""
    best: int | None = None
    for iteration, value in values.items():
        if math.isfinite(value) and state.better(value, None if best is None else values[best]):
            best = iteration
    return best
