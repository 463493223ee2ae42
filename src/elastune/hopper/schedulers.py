"""The schedulers by name. Adding one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from elastune.errors import JobError
from elastune.hopper.exact import Effort, exact_scheduler
from elastune.hopper.randomized import Randomized
from elastune.hopper.rehearsal import GOOD_ENOUGH, MostLeft
from elastune.hopper.scheduler import Scheduler
from elastune.wording import did_you_mean, either, seen

DEFAULT_SCHEDULER = "list"
# Of the solver's own time: a run that is replayed has to come to the same schedule on any machine.
_EFFORT = Effort(limit_s=3600.0, deterministic_s=5.0)

SCHEDULERS: dict[str, Callable[[int, float], Scheduler]] = {
    "list": lambda _, tolerance: MostLeft(tolerance=tolerance),
    "randomized": lambda seed, _: Randomized(seed),
    "exact": lambda seed, _: exact_scheduler(replace(_EFFORT, seed=seed)),
}
"""Each is made with a seed and a tolerance; only some draw, and only some try again."""


def make_scheduler(
    name: str = DEFAULT_SCHEDULER, *, seed: int = 0, tolerance: float = GOOD_ENOUGH
) -> Scheduler:
    """A scheduler for one epoch, good enough if that ends within so large a part above the bound."""
    if name not in SCHEDULERS:
        expected = either(f"'{each}'" for each in SCHEDULERS)
        meant = did_you_mean(name, SCHEDULERS)
        raise JobError(f"no scheduler {seen(name)} for model hopping, expected {expected}{meant}")
    return SCHEDULERS[name](seed, tolerance)
