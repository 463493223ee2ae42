"""The lives of gangs: which slots a trial had from when to when, and what it did on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from elastune.cluster import Billing, ClusterTerms
from elastune.core.commands import Train
from elastune.core.trials import Activity
from elastune.place import Gang, NodeId, TrialId


class Span(NamedTuple):
    """What a gang did from when to when."""

    activity: Activity
    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GangLife:
    trial: TrialId
    generation: int
    gang: Gang
    spans: tuple[Span, ...]
    end: str | None
    """`paused`, `stopped`, `crashed` or `lost`; None: it is still there."""

    @property
    def from_s(self) -> float:
        return self.spans[0].from_s

    @property
    def until_s(self) -> float:
        return self.spans[-1].until_s


@dataclass(slots=True)
class _Gang:
    trial: TrialId
    generation: int
    gang: Gang
    formed_s: float
    since_s: float
    activity: Activity = Activity.STARTING
    spans: list[Span] = field(default_factory=list)
    end: str | None = None

    def turn_to(self, activity: Activity, at_s: float) -> None:
        """What takes no time leaves no span, but a gang always has one."""
        if activity is self.activity:
            return
        if at_s > self.since_s:
            self.spans.append(Span(self.activity, self.since_s, at_s))
        self.activity, self.since_s = activity, at_s

    def life(self, now_s: float) -> GangLife:
        spans = list(self.spans)
        if self.end is None and now_s > self.since_s:
            spans.append(Span(self.activity, self.since_s, now_s))
        return GangLife(
            trial=self.trial,
            generation=self.generation,
            gang=self.gang,
            spans=tuple(spans) or (Span(self.activity, self.formed_s, self.formed_s),),
            end=self.end,
        )


class GangBook:
    """`stirred` and `usd` matter where slots are billed."""

    def __init__(self, cluster: ClusterTerms) -> None:
        self._rate = cluster.slot_usd_per_s if cluster.billing is Billing.FUNCTION else 0.0
        self._all: list[_Gang] = []
        self._present: dict[TrialId, _Gang] = {}
        self._closed_usd = 0.0
        self._slots = 0
        self._since = 0.0  # sum of slots x start time over the gangs of now
        self.stirred = False

    def usd(self, at_s: float) -> float:
        return self._closed_usd + self._rate * (self._slots * at_s - self._since)

    def is_present(self, trial: TrialId, generation: int) -> bool:
        gang = self._present.get(trial)
        return gang is not None and gang.generation == generation

    def present(self) -> list[TrialId]:
        return list(self._present)

    def on(self, node: NodeId) -> list[TrialId]:
        return [
            trial for trial, each in self._present.items() if any(slot.node == node for slot in each.gang)
        ]

    def train(self, command: Train, at_s: float) -> None:
        """A new gang, or a longer lease for the present one."""
        gang = self._present.get(command.trial)
        if gang is not None and gang.generation == command.generation:
            if gang.activity is Activity.WAITING:
                gang.turn_to(Activity.TRAINING, at_s)
            return
        gang = _Gang(command.trial, command.generation, command.gang, at_s, at_s)
        self._all.append(gang)
        self._present[command.trial] = gang
        self._slots += len(gang.gang)
        self._since += len(gang.gang) * at_s
        self.stirred |= self._rate > 0.0

    def trains(self, trial: TrialId, at_s: float) -> None:
        self._present[trial].turn_to(Activity.TRAINING, at_s)

    def waits(self, trial: TrialId, at_s: float) -> None:
        self._present[trial].turn_to(Activity.WAITING, at_s)

    def saves(self, trial: TrialId, at_s: float) -> None:
        self._present[trial].turn_to(Activity.SAVING, at_s)

    def dissolve(self, trial: TrialId, at_s: float, why: str) -> None:
        gang = self._present.pop(trial, None)
        if gang is None:
            return
        if at_s > gang.since_s:
            gang.spans.append(Span(gang.activity, gang.since_s, at_s))
        gang.end = why
        self._closed_usd += self._rate * len(gang.gang) * (at_s - gang.formed_s)
        self._slots -= len(gang.gang)
        self._since -= len(gang.gang) * gang.formed_s
        self.stirred |= self._rate > 0.0

    def lives(self, now_s: float) -> tuple[GangLife, ...]:
        return tuple(gang.life(now_s) for gang in self._all)
