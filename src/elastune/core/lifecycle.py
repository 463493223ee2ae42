"""The life of a trial: its phases, and the only ways from one to another.

                ┌───────────── a gang lost before the first checkpoint ─────────────┐
                ▼                                                                   │
SAMPLED ──▶ STARTING ──▶ RUNNING ──▶ PAUSED ──▶ STARTING ...        RUNNING, STARTING, RESIZING
                           │  ▲
                           ▼  └── STARTING
                        RESIZING                    any of them ──▶ STOPPED | FINISHED | FAILED
"""

from __future__ import annotations

import enum

from elastune.errors import InvariantError


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
