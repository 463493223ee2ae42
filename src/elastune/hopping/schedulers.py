"""The schedulers by name, and `randomized`. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from elastune.errors import JobError
from elastune.hopping.epoch_state import Assignment, EpochState, Scheduler
from elastune.hopping.exact_scheduler import SolverEffort, exact_scheduler
from elastune.hopping.list_scheduler import MostLeft
from elastune.wording import did_you_mean, either, seen


class Randomized:
    """Cerebro's Algorithms 1 and 2 (section 5.3), replica-aware (5.5), with Q and Q' (5.6).

    Each free worker, in order, gets a random unit of those whose trial is free and whose partition it holds.
    Deviations: the paper shuffles all of Q and takes the first such unit, which is the same as a uniform
    draw; and instead of waiting WAIT_TIME it is called at every event. Nothing is drawn if nothing can start,
    so more calls change nothing.
    """

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)

    def dispatch(self, state: EpochState) -> tuple[Assignment, ...]:
        free = state.trial_free.copy()
        chosen = []
        for row in np.flatnonzero(state.worker_free):
            trials, columns = np.nonzero(state.todo & free[:, None] & state.holds[row])
            if len(trials):
                drawn = int(self._draw.integers(len(trials)))
                free[trials[drawn]] = False
                unit = state.unit(int(trials[drawn]), int(columns[drawn]))
                chosen.append(Assignment(unit, state.workers[row].id))
        return tuple(chosen)


DEFAULT_SCHEDULER = "list"
# Deterministic time: the replay of a run must find the same schedule on any machine.
_EFFORT = SolverEffort(limit_s=3600.0, deterministic_s=5.0)
_HASTY_SIMULATIONS = 8
# As a share of an epoch; the times of visits are known less well than that.
_HASTY_TOLERANCE = 0.005

SCHEDULERS: dict[str, Callable[[int], Scheduler]] = {
    "list": lambda _: MostLeft(),
    "randomized": Randomized,
    "exact": lambda seed: exact_scheduler(replace(_EFFORT, seed=seed)),
}
"""Each takes a seed; only some draw."""


def make_scheduler(
    name: str = DEFAULT_SCHEDULER, *, seed: int = 0, hasty: bool = False, goes_on: bool = False
) -> Scheduler:
    """A scheduler for one epoch. `hasty`: workers wait for its decision, so it tries less.

    `goes_on`: trials begin their next epochs before this one ends, so no plan to its end is worth while.
    """
    if name not in SCHEDULERS:
        expected = either(f"'{each}'" for each in SCHEDULERS)
        meant = did_you_mean(name, SCHEDULERS)
        raise JobError(f"no scheduler {seen(name)} for model hopping, expected {expected}{meant}")
    if goes_on and name == DEFAULT_SCHEDULER:
        return MostLeft(simulations=0)
    if hasty and name == DEFAULT_SCHEDULER:
        return MostLeft(simulations=_HASTY_SIMULATIONS, tolerance=_HASTY_TOLERANCE)
    return SCHEDULERS[name](seed)
