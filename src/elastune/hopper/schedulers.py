"""The schedulers by name. Adding one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from elastune.errors import JobError
from elastune.hopper.exact import Effort, exact_scheduler
from elastune.hopper.randomized import Randomized
from elastune.hopper.rehearsal import MostLeft
from elastune.hopper.scheduler import Scheduler
from elastune.wording import did_you_mean, either, seen

DEFAULT_SCHEDULER = "list"
# Of the solver's own time: a run that is replayed has to come to the same schedule on any machine.
_EFFORT = Effort(limit_s=3600.0, deterministic_s=5.0)
_HASTY_REHEARSALS = 8
# Of an epoch. What visits will take is known less well than that.
_HASTY_TOLERANCE = 0.005

SCHEDULERS: dict[str, Callable[[int], Scheduler]] = {
    "list": lambda _: MostLeft(),
    "randomized": Randomized,
    "exact": lambda seed: exact_scheduler(replace(_EFFORT, seed=seed)),
}
"""Each is made with a seed; only some draw."""


def make_scheduler(name: str = DEFAULT_SCHEDULER, *, seed: int = 0, hasty: bool = False) -> Scheduler:
    """A scheduler for one epoch. `hasty`: workers wait while it thinks, so it tries less."""
    if name not in SCHEDULERS:
        expected = either(f"'{each}'" for each in SCHEDULERS)
        meant = did_you_mean(name, SCHEDULERS)
        raise JobError(f"no scheduler {seen(name)} for model hopping, expected {expected}{meant}")
    if hasty and name == DEFAULT_SCHEDULER:
        return MostLeft(rehearsals=_HASTY_REHEARSALS, tolerance=_HASTY_TOLERANCE)
    return SCHEDULERS[name](seed)
