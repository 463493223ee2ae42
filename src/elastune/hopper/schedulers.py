"""The schedulers by name. Adding one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable

from elastune.errors import JobError
from elastune.hopper.exact import Effort, exact_scheduler
from elastune.hopper.randomized import Randomized
from elastune.hopper.rehearsal import MostLeft
from elastune.hopper.scheduler import Scheduler
from elastune.wording import did_you_mean, either, seen

DEFAULT_SCHEDULER = "list"

SCHEDULERS: dict[str, Callable[[int], Scheduler]] = {
    "list": lambda _: MostLeft(),
    "randomized": Randomized,
    "exact": lambda seed: exact_scheduler(Effort(seed=seed)),
}
"""Each is made with a seed; only some draw."""


def make_scheduler(name: str = DEFAULT_SCHEDULER, *, seed: int = 0) -> Scheduler:
    """A scheduler for one epoch."""
    if name not in SCHEDULERS:
        expected = either(f"'{each}'" for each in SCHEDULERS)
        meant = did_you_mean(name, SCHEDULERS)
        raise JobError(f"no scheduler {seen(name)} for model hopping, expected {expected}{meant}")
    return SCHEDULERS[name](seed)
