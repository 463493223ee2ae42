"""A trial as the core knows it: its phases, the allowed steps between them, its gang and its values.

                ┌───────────── a gang lost before the first checkpoint ─────────────┐
                ▼                                                                   │
SAMPLED ──▶ STARTING ──▶ RUNNING ──▶ PAUSED ──▶ STARTING ...        RUNNING, STARTING, RESIZING
                           │  ▲
                           ▼  └── STARTING
                        RESIZING                    any of them ──▶ STOPPED | FINISHED | FAILED

The end of the run stops trials, too; `revive` takes that back if the run is extended.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from elastune.core.commands import Visit
from elastune.core.events import Config
from elastune.errors import InvariantError
from elastune.model.ids import Gang, TrialId


class Phase(enum.Enum):
    SAMPLED = "sampled"  # no gang, no checkpoint
    STARTING = "starting"  # its gang connects and loads
    RUNNING = "running"  # trains, waits for an order, or saves
    RESIZING = "resizing"  # about to get another gang
    PAUSED = "paused"  # checkpoint kept, slots free
    STOPPED = "stopped"  # by the policy or the end of the run
    FINISHED = "finished"  # trained to its end
    FAILED = "failed"  # its own code failed

    def __init__(self, word: str) -> None:
        # Attributes: every decision asks them of every trial, and a property takes three times as long.
        self.is_over = word in ("stopped", "finished", "failed")
        self.following: tuple[Phase, ...] = ()  # the phases that may come next


OVER = frozenset(phase for phase in Phase if phase.is_over)

_NO_GANG = frozenset({Phase.SAMPLED, Phase.PAUSED, Phase.STOPPED, Phase.FAILED})
NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.SAMPLED: frozenset({Phase.STARTING, Phase.STOPPED, Phase.FAILED}),
    Phase.STARTING: _NO_GANG | {Phase.RUNNING, Phase.RESIZING},
    Phase.RUNNING: _NO_GANG | {Phase.RESIZING, Phase.FINISHED},
    Phase.RESIZING: _NO_GANG | {Phase.RUNNING, Phase.FINISHED},
    Phase.PAUSED: frozenset({Phase.STARTING, Phase.STOPPED, Phase.FINISHED}),
    **dict.fromkeys(OVER, frozenset()),
}
for _phase, _following in NEXT.items():
    _phase.following = tuple(_following)


def check_step(trial: int, before: Phase, after: Phase) -> Phase:
    """The phase after the step; a step that is not in the table is a bug of the core."""
    if after not in before.following:
        raise InvariantError(f"trial {trial} cannot go from {before.value} to {after.value}")
    return after


class Activity(enum.IntEnum):
    """What the slots of a gang are doing. Numbers, because the ledger indexes by them."""

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
    """`values[i]` is the metric after iteration i + 1; up to iteration `saved`, a checkpoint is durable."""

    number: TrialId
    config: Config
    parent: TrialId | None = None
    """The trial that it was forked from, whose values and checkpoint it starts with."""
    inherited: int = 0
    """Iterations taken over from the parent."""
    given: bool = False
    """Its values were given by a request, not drawn."""
    phase: Phase = Phase.SAMPLED
    generation: int = 0
    gang: Gang = ()
    pool: int = 0
    activity: Activity | None = None
    since_s: float = 0.0
    """When the activity began."""
    begun_at: int = 0
    """Iterations done when the gang last began to train."""
    formed_s: float = 0.0
    lease: Lease | None = None
    visit: Visit | None = None
    """The present part of an iteration, where models hop."""
    shares: tuple[tuple[int, ...], ...] = ()
    """The partitions that each member of its gang holds."""
    revoked: bool = False
    stays: bool = False
    """Its gang saves, or has saved, and keeps its slots until the policy decides."""
    values: list[float] = field(default_factory=list)
    saved: int = 0
    returned: bool = False
    """The trainable has nothing more to train."""
    late_after_s: float | None = None
    """A lease up to this time was too short for one more iteration; a longer one may suffice."""
    crashes: int = 0
    killed: int = 0
    """How often its gang was lost though neither its code nor a machine failed."""
    lost: int = 0
    """How often its gang was lost with a machine."""
    error: str | None = None
    failed_after: int | None = None
    """The iterations that it had done when it failed, saved or not."""
    final_goal: int | None = None
    """The iteration at which it would be finished, once it has a lease to there."""

    @property
    def iteration(self) -> int:
        return len(self.values)

    @property
    def is_kept(self) -> bool:
        """It waits in its gang, and its state is durable."""
        return self.stays and self.activity is Activity.WAITING

    @property
    def value(self) -> float | None:
        """The metric after the last iteration."""
        return self.values[-1] if self.values else None

    def step(self, phase: Phase) -> None:
        self.phase = check_step(self.number, self.phase, phase)

    def revive(self) -> None:
        """The run goes on after its end, which had stopped the trial."""
        if self.phase is not Phase.STOPPED:
            raise InvariantError(f"trial {self.number} is {self.phase.value}; expected one that was stopped")
        self.phase = Phase.PAUSED if self.saved else Phase.SAMPLED

    def has_done(self, until_iteration: int) -> bool:
        return self.returned or len(self.values) >= until_iteration

    def is_through(self, most_iterations: int | None) -> bool:
        """Whether nothing is left to train; None: there is no last iteration."""
        is_ended = self.phase.is_over or self.returned
        return is_ended or (most_iterations is not None and self.has_done(most_iterations))
