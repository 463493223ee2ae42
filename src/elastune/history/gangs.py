"""The gangs of a run: which slots a trial had from when to when, and what it did on them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from elastune.core.commands import Train
from elastune.core.events import VisitEnded
from elastune.core.trials import Activity
from elastune.model.billing import slot_rate
from elastune.model.cluster import ClusterTerms
from elastune.model.ids import Gang, NodeId, TrialId
from elastune.model.rows import Rows

# A start is stamped when the driver hears of it; an iteration that is shorter than the message seems to have
# ended before.
_SHORTEST_S = 1e-4


class GangSpan(NamedTuple):
    activity: Activity
    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitLife:
    """A visit of a hopping model to a partition; the last four fields are reported at its end."""

    partition: int
    iteration: int
    evaluates: bool
    done: int  # earlier visits of this iteration
    of: int
    seconds: float = 0.0  # training alone
    load_s: float = 0.0  # time to read the partition, before training
    hopped: bool = False
    model_bytes: int = 0


@dataclass(slots=True)
class GangLife:
    """One gang of a trial. While it runs, the current activity has no span yet."""

    trial: TrialId
    generation: int
    gang: Gang
    formed_s: float
    since_s: float  # start of the current activity
    activity: Activity = Activity.STARTING
    spans: list[GangSpan] = field(default_factory=list)
    end: str | None = None  # `paused`, `stopped`, `crashed`, `lost` or `visited`; None: it still runs
    ended_s: float | None = None
    visit: VisitLife | None = None  # model hopping: a gang of one slot visits one partition
    shares: tuple[
        tuple[int, ...], ...
    ] = ()  # one model on all workers of a hopping run: partitions by member
    first_iteration: int = 1
    rows: int = 0  # iterations reported
    started_s: float | None = None  # when training began, if reported
    repeated: int = 0  # iterations trained again before that, by a trial that cannot be saved
    save_from_s: float | None = None  # when a save was commanded, until it is durable
    saves: list[tuple[float, float]] = field(default_factory=list)  # (end, seconds) of saves on command
    iteration_from_s: float | None = None  # start of the current iteration; None: unknown
    iterations_s: list[float] = field(default_factory=list)  # of iterations whose start is known

    @property
    def is_together(self) -> bool:
        """One model on all workers between epochs of hopping."""
        return bool(self.shares)

    @property
    def from_s(self) -> float:
        return self.spans[0].from_s

    @property
    def until_s(self) -> float:
        return self.spans[-1].until_s

    @classmethod
    def of(cls, command: Train, at_s: float) -> GangLife:
        gang = cls(command.trial, command.generation, command.gang, at_s, at_s)
        gang.first_iteration = command.after_iteration + 1
        if command.visit is None:
            gang.shares = command.shares
            return gang
        visit = command.visit
        gang.activity = Activity.TRAINING  # as in the core: models arrive while others train
        gang.visit = VisitLife(
            partition=visit.partition,
            iteration=gang.first_iteration,
            evaluates=visit.evaluates,
            done=visit.done,
            of=visit.of,
        )
        return gang

    def turn_to(self, activity: Activity, at_s: float) -> None:
        if activity is not self.activity:
            self.end_span(at_s)
            self.activity, self.since_s = activity, at_s

    def end_span(self, at_s: float) -> None:
        """An activity that took no time leaves no span."""
        if at_s > self.since_s:
            self.spans.append(GangSpan(self.activity, self.since_s, at_s))

    def report(self, rows: Rows) -> None:
        if rows.follow(self.first_iteration + self.rows - 1):
            self.rows += len(rows.times_s)
            if self.iteration_from_s is not None:
                ends_s = (self.iteration_from_s, *rows.times_s)
                self.iterations_s += [
                    until_s - from_s if until_s > from_s else _SHORTEST_S
                    for from_s, until_s in itertools.pairwise(ends_s)
                ]
            self.iteration_from_s = rows.times_s[-1]
            return
        for iteration, at_s in zip(rows.iterations, rows.times_s, strict=True):
            new = max(1, iteration - self.first_iteration - self.rows + 1)
            self.rows += new
            if self.iteration_from_s is not None:
                # A call that reports its last iteration only has trained all of them, from the beginning.
                trained = 1 if new == 1 else iteration
                seconds = at_s - self.iteration_from_s
                self.iterations_s.append((seconds if seconds > 0.0 else _SHORTEST_S) / trained)
            self.iteration_from_s = at_s

    def at(self, now_s: float) -> GangLife:
        """A copy with at least one span, of length 0 if there is no other."""
        copy = replace(
            self, spans=list(self.spans), iterations_s=list(self.iterations_s), saves=list(self.saves)
        )
        if copy.end is None:
            copy.end_span(now_s)
        copy.spans = copy.spans or [GangSpan(self.activity, self.formed_s, self.formed_s)]
        return copy


@dataclass(slots=True)
class _Tenure:
    """The sum over all gangs of a trial."""

    first_s: float
    last: GangLife
    seconds: float = 0.0
    slot_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTime:
    """The slot time of a trial, summed over its gangs. `gang` is the last one."""

    started_s: float
    ended_s: float | None  # None: it has slots now
    gang: Gang
    seconds: float
    slot_seconds: float


class GangBook:
    """`usd_before` and `usd` matter if slots are billed."""

    def __init__(self, cluster: ClusterTerms) -> None:
        self._rate = slot_rate(cluster)
        self._all: list[GangLife] = []
        self._present: dict[TrialId, GangLife] = {}
        self._tenures: dict[TrialId, _Tenure] = {}
        self._closed_usd = 0.0
        self._slots = 0
        self._since = 0.0  # sum of slots x start time over the present gangs
        self.usd_before: float | None = None
        """What was owed when the first change of this event came; None: nothing has changed."""

    def usd(self, at_s: float) -> float:
        return self._closed_usd + self._rate * (self._slots * at_s - self._since)

    def _change(self, at_s: float) -> None:
        if self._rate > 0.0 and self.usd_before is None:
            self.usd_before = self.usd(at_s)

    def is_present(self, trial: TrialId, generation: int) -> bool:
        gang = self._present.get(trial)
        return gang is not None and gang.generation == generation

    def present(self) -> list[TrialId]:
        return list(self._present)

    def on(self, node: NodeId) -> list[TrialId]:
        return [trial for trial, each in self._present.items() if node in {slot.node for slot in each.gang}]

    def train(self, command: Train, at_s: float) -> None:
        """A new gang, or a longer lease for the present one."""
        gang = self._present.get(command.trial)
        if gang is not None and gang.generation == command.generation:
            if gang.activity is Activity.WAITING:
                gang.turn_to(Activity.TRAINING, at_s)
            if gang.iteration_from_s is None and gang.iterations_s:
                gang.iteration_from_s = at_s
            return
        self._change(at_s)
        gang = GangLife.of(command, at_s)
        self._tenures.setdefault(command.trial, _Tenure(at_s, gang)).last = gang
        self._all.append(gang)
        self._present[command.trial] = gang
        self._slots += len(gang.gang)
        self._since += len(gang.gang) * at_s

    def reported(self, trial: TrialId, rows: Rows) -> None:
        self._present[trial].report(rows)

    def visited(self, event: VisitEnded) -> None:
        """The visit's report; `dissolve` ends the gang."""
        gang = self._present[event.trial]
        if gang.visit is not None:
            gang.visit = replace(
                gang.visit,
                seconds=event.seconds,
                load_s=event.load_s,
                hopped=event.hopped,
                model_bytes=event.model_bytes,
            )

    def trains(self, trial: TrialId, at_s: float, repeated: int = 0) -> None:
        gang = self._present[trial]
        gang.repeated = repeated
        gang.turn_to(Activity.TRAINING, at_s)
        gang.started_s = gang.iteration_from_s = at_s

    def waits(self, trial: TrialId, at_s: float) -> None:
        gang = self._present[trial]
        gang.turn_to(Activity.WAITING, at_s)
        gang.iteration_from_s = None

    def saves(self, trial: TrialId, at_s: float) -> None:
        gang = self._present.get(trial)
        if gang is not None:
            gang.turn_to(Activity.SAVING, at_s)
            gang.save_from_s = at_s

    def saved(self, trial: TrialId, at_s: float) -> None:
        """A save on command is durable; the gang ends now, or waits for another lease."""
        gang = self._present[trial]
        gang.turn_to(Activity.WAITING, at_s)
        if gang.save_from_s is not None:
            gang.saves.append((at_s, at_s - gang.save_from_s))
            gang.save_from_s = None

    def dissolve(self, trial: TrialId, at_s: float, why: str) -> None:
        gang = self._present.pop(trial, None)
        if gang is None:
            return
        self._change(at_s)
        gang.end_span(at_s)
        gang.end, gang.ended_s = why, at_s
        tenure, lasted_s = self._tenures[trial], at_s - gang.formed_s
        tenure.seconds += lasted_s
        tenure.slot_seconds += lasted_s * len(gang.gang)
        self._closed_usd += self._rate * len(gang.gang) * (at_s - gang.formed_s)
        self._slots -= len(gang.gang)
        self._since -= len(gang.gang) * gang.formed_s

    def slot_time(self, trial: TrialId, now_s: float) -> SlotTime | None:
        """None: the trial never had slots."""
        tenure = self._tenures.get(trial)
        if tenure is None:
            return None
        gang = tenure.last
        more_s = now_s - gang.formed_s if gang.end is None else 0.0
        return SlotTime(
            started_s=tenure.first_s,
            ended_s=gang.ended_s,
            gang=gang.gang,
            seconds=tenure.seconds + more_s,
            slot_seconds=tenure.slot_seconds + more_s * len(gang.gang),
        )

    def lives(self, now_s: float) -> tuple[GangLife, ...]:
        return tuple(gang.at(now_s) for gang in self._all)
