"""How far a policy is, what it has planned, and what comes next: all that a view needs to know of a policy.

A plan has a track per bracket, with stages that end at barriers; a policy in rounds has tracks of rounds that
end by the clock. A policy that decides while it runs has no tracks.

The contract of a policy: events in, advice out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from elastune.core.events import AnyEvent
from elastune.core.wishes import Advice

if TYPE_CHECKING:
    from elastune.core.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledStage:
    """One stage or round of a plan. `boot_s`: its first seconds, in which nodes boot and nothing trains."""

    name: str
    trials: int
    iterations: int | None
    goal: int | None
    """Iterations that a trial has behind it at the end; None: a round ends by the clock."""
    nodes: int
    begin_s: float
    seconds: float
    boot_s: float
    begin_usd: float
    usd: float
    done: float = 0.0
    """Of the work of the stage, what was done before: the rest of it was planned again."""

    @property
    def end_s(self) -> float:
        return self.begin_s + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackProgress:
    """Stages that follow each other, and where the run is among them."""

    stages: tuple[ScheduledStage, ...]
    present: int
    """Index of the present stage; beyond the last when all are over."""
    share: float = 0.0
    """Of the work of the present stage."""
    trains: bool = False
    """False: the nodes of the present stage are still awaited."""
    ends_s: float | None = None
    """When the present round ends; None: a stage ends when its work is done, or the round has not begun."""
    pool: int | None = None
    """Whose stages in the ledger are these; None: several tracks share one pool."""

    @property
    def stage(self) -> ScheduledStage | None:
        return self.stages[self.present] if self.present < len(self.stages) else None

    @property
    def next(self) -> ScheduledStage | None:
        return self.stages[self.present + 1] if self.present + 1 < len(self.stages) else None

    @property
    def seconds(self) -> float:
        return self.stages[-1].end_s

    def usd_at(self, at_s: float) -> float:
        """Paid by then; within a stage by the second."""
        usd = 0.0
        for stage in self.stages:
            if at_s < stage.end_s:
                share = max(0.0, at_s - stage.begin_s) / stage.seconds if stage.seconds else 1.0
                return max(usd, stage.begin_usd + share * stage.usd)
            usd = stage.begin_usd + stage.usd
        return usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming:
    """Something ahead; `at_s` None: when is not known."""

    at_s: float | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`upcoming` explains the timers of the policy; those of the core are explained where they are set."""

    by_clock: bool = False
    tracks: tuple[TrackProgress, ...] = ()
    upcoming: tuple[Upcoming, ...] = ()

    @property
    def word(self) -> str:
        """What a stage is called."""
        return "round" if self.by_clock else "stage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vetoed:
    """Not an event of the journal.

    The core refused nodes that the policy wants, and follows from the state.
    """

    at_s: float
    pool: int
    wanted: int
    allowed: int
    why: str


class Policy(Protocol):
    """Decides which trials train, on how many slots, for how long, and how many nodes that needs.

    It may keep a memory of its own, but only of what it was told: the same events give the same advice. It
    looks at the state and does not touch it.
    """

    def start(self, state: State) -> Advice:
        """The run begins."""

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        """Something happened and is already part of the state. None: all wishes stand."""

    def progress(self, state: State) -> Progress:
        """How far it is, what it has planned and what its timers are for. It changes nothing.

        A policy that derives from this class and has no plan need not say anything.
        """
        return Progress()
