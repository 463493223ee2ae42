"""The contract of a policy: events in, advice out; and its progress, which is all that a view knows of it.

A plan has a track per bracket, with stages that end at barriers; a policy in rounds has tracks of rounds that
end by the clock. A policy that decides while it runs has no tracks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from elastune.core.events import AnyEvent, ConfigAdded, RunExtended
from elastune.core.wishes import Advice

if TYPE_CHECKING:
    from elastune.core.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledStage:
    """A stage or round of a plan. `boot_s`: its first seconds, in which nodes boot and nothing trains."""

    name: str
    trials: int
    iterations: int | None
    goal: int | None
    """Iterations that a trial has done at the end; None: a round ends by the clock."""
    nodes: int
    begin_s: float
    seconds: float
    boot_s: float
    begin_usd: float
    usd: float
    done: float = 0.0
    """The share of the stage that was done before the rest was planned again."""

    @property
    def end_s(self) -> float:
        return self.begin_s + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackProgress:
    """Successive stages, and where the run is among them."""

    stages: tuple[ScheduledStage, ...]
    present: int
    """Index of the present stage; past the end when all are over."""
    share: float = 0.0
    """The share of the present stage that is done."""
    trains: bool = False
    """False: the present stage still waits for nodes."""
    ends_s: float | None = None
    """When the present round ends; None: a stage ends when its work is done, or the round has not begun."""
    pool: int | None = None
    """The pool of these stages in the ledger; None: several tracks share one pool."""

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
        """Planned cost up to then; within a stage by the second."""
        usd = 0.0
        for stage in self.stages:
            if at_s < stage.end_s:
                share = max(0.0, at_s - stage.begin_s) / stage.seconds if stage.seconds else 1.0
                return max(usd, stage.begin_usd + share * stage.usd)
            usd = stage.begin_usd + stage.usd
        return usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming:
    """Something to come; `at_s` None: the time is not known."""

    at_s: float | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`upcoming` explains the policy's timers; the core explains its own where it sets them."""

    by_clock: bool = False
    tracks: tuple[TrackProgress, ...] = ()
    upcoming: tuple[Upcoming, ...] = ()

    @property
    def word(self) -> str:
        """What a stage is called."""
        return "round" if self.by_clock else "stage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vetoed:
    """The core refused nodes that the policy wants. Not in the journal, because it follows from the state."""

    at_s: float
    pool: int
    wanted: int
    allowed: int
    why: str


class Policy(Protocol):
    """Decides which trials train, on how many slots, for how long, and on how many nodes.

    It may keep data of its own, but only from events: the same events give the same advice. It reads the
    state and never changes it.
    """

    def start(self, state: State) -> Advice:
        """The run begins."""

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        """The event is already part of the state. None: all wishes stand."""

    def refuses(self, request: RunExtended | ConfigAdded, state: State) -> str | None:
        """Why it has no use for new limits (of a run that goes on or has ended), for more trials, or for a
        configuration. None: it acts on the event. Policies that inherit this take new limits while they run.
        """
        if isinstance(request, ConfigAdded) or request.more_trials:
            return "the policy of this run takes no new trials while it runs"
        return None if state.ended is None else "the policy of this run cannot go on after its end"

    def progress(self, state: State) -> Progress:
        """How far it is, what is planned, what its timers are for; policies without a plan inherit this."""
        return Progress()

    def intentions(self, state: State) -> tuple[str, ...]:
        """Sentences for the quote: what it means to do with the limits of a run that has not begun. None from
        policies without, and from those whose stages or rounds say it."""
        return ()
