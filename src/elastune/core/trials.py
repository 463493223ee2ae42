"""The life of a trial: its phases, and the only ways from one to another.

                ┌───────────── a gang lost before the first checkpoint ─────────────┐
                ▼                                                                   │
SAMPLED ──▶ STARTING ──▶ RUNNING ──▶ PAUSED ──▶ STARTING ...        RUNNING, STARTING, RESIZING
                           │  ▲
                           ▼  └── STARTING
                        RESIZING                    any of them ──▶ STOPPED | FINISHED | FAILED

A trial as the core knows it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from elastune.core.commands import Visit
from elastune.core.events import Config
from elastune.errors import InvariantError
from elastune.model.ids import Gang, TrialId


class Phase(enum.Enum):
    SAMPLED = "sampled"  # no gang, nothing trained that is worth keeping
    STARTING = "starting"  # a gang connects and loads
    RUNNING = "running"  # trains, waits for an order, or saves
    RESIZING = "resizing"  # on its way to another gang
    PAUSED = "paused"  # checkpoint kept, slots free
    STOPPED = "stopped"  # the policy, or the end of the run, has no more use for it
    FINISHED = "finished"  # trained as far as it ever will
    FAILED = "failed"  # by its own fault

    @property
    def is_over(self) -> bool:
        return self in OVER


OVER = frozenset({Phase.STOPPED, Phase.FINISHED, Phase.FAILED})

NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.SAMPLED: frozenset({Phase.STARTING, Phase.STOPPED, Phase.FAILED}),
    Phase.STARTING: frozenset(
        {Phase.RUNNING, Phase.RESIZING, Phase.SAMPLED, Phase.PAUSED, Phase.STOPPED, Phase.FAILED}
    ),
    Phase.RUNNING: frozenset(
        {Phase.RESIZING, Phase.SAMPLED, Phase.PAUSED, Phase.STOPPED, Phase.FINISHED, Phase.FAILED}
    ),
    Phase.RESIZING: frozenset(
        {Phase.RUNNING, Phase.SAMPLED, Phase.PAUSED, Phase.STOPPED, Phase.FINISHED, Phase.FAILED}
    ),
    Phase.PAUSED: frozenset({Phase.STARTING, Phase.STOPPED, Phase.FINISHED}),
    Phase.STOPPED: frozenset(),
    Phase.FINISHED: frozenset(),
    Phase.FAILED: frozenset(),
}


def check_step(trial: int, before: Phase, after: Phase) -> Phase:
    """The phase after the step; a step that the table does not have is our bug."""
    if after not in NEXT[before]:
        raise InvariantError(f"trial {trial} cannot go from {before.value} to {after.value}")
    return after


class Activity(enum.IntEnum):
    """What the slots of a gang are doing. Numbers, because the ledger counts by them all the time."""

    STARTING = 0
    TRAINING = 1
    WAITING = 2
    SAVING = 3


@dataclass(frozen=True, slots=True)
class Lease:
    until_iteration: int
    until_s: float | None
    final: bool


@dataclass(slots=True)
class Trial:
    """`values[i]` is the metric after iteration i + 1.

    `saved` is the newest iteration with a durable checkpoint.
    """

    number: TrialId
    config: Config
    parent: TrialId | None = None
    """The trial that it was forked from; the values and the checkpoint up to there are the parent's."""
    inherited: int = 0
    """Iterations that the parent had done."""
    phase: Phase = Phase.SAMPLED
    generation: int = 0
    gang: Gang = ()
    pool: int = 0
    activity: Activity | None = None
    since_s: float = 0.0
    """When the activity began."""
    begun_at: int = 0
    """Iterations that were done when the gang last began to train."""
    formed_s: float = 0.0
    """When the gang formed."""
    lease: Lease | None = None
    visit: Visit | None = None
    """The part of an iteration that it is on, where models hop."""
    shares: tuple[tuple[int, ...], ...] = ()
    """The partitions that each member of its gang holds."""
    revoked: bool = False
    values: list[float] = field(default_factory=list)
    saved: int = 0
    returned: bool = False
    """The trainable has nothing more to train."""
    late_after_s: float | None = None
    """A lease up to this time was too short for one more iteration; a longer one may do."""
    crashes: int = 0
    killed: int = 0
    """How often its gang went though neither its code nor a machine did."""
    lost: int = 0
    """How often a machine took its gang away."""
    error: str | None = None

    @property
    def iteration(self) -> int:
        return len(self.values)

    @property
    def value(self) -> float | None:
        """The metric after the last iteration."""
        return self.values[-1] if self.values else None

    def step(self, phase: Phase) -> None:
        self.phase = check_step(self.number, self.phase, phase)

    def has_done(self, until_iteration: int) -> bool:
        return self.returned or len(self.values) >= until_iteration

    def is_through(self, most_iterations: int | None) -> bool:
        """Nothing is left to train; None: there is no last iteration."""
        if self.phase.is_over or self.returned:
            return True
        return most_iterations is not None and self.has_done(most_iterations)
