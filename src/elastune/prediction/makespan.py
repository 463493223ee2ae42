"""When the last trial of a stage ends, for many samples at once."""

from __future__ import annotations

import numpy as np

from elastune.profiles.distributions import Array


def makespan(durations: Array, gangs: int) -> Array:
    """Rows are samples, columns trials in the order they start; `gangs` gangs take the next as they free.

    List scheduling, a batch of trials per step: with the gangs sorted by the time they free, the next
    trials go to the first, second, ... gang as long as none of the trials just started ends before the
    next gang frees. With durations that differ by less than a factor of two a batch is a whole round.
    """
    rows, trials = durations.shape
    if gangs >= trials:
        return np.asarray(durations.max(axis=1))
    if gangs == 1:
        return np.asarray(durations.sum(axis=1))
    padded = np.concatenate([durations, np.full((rows, gangs), np.inf)], axis=1)
    free = np.sort(durations[:, :gangs], axis=1)
    started = np.full(rows, gangs)
    ahead = np.arange(gangs)
    ends = np.zeros(rows)
    active = np.arange(rows)
    while active.size:
        batch = np.take_along_axis(padded[active], started[active, None] + ahead, axis=1)
        ending = free[active] + batch
        earliest = np.minimum.accumulate(ending, axis=1)
        safe = np.ones_like(batch, dtype=bool)
        safe[:, 1:] = free[active, 1:] <= earliest[:, :-1]
        taken = np.logical_and.accumulate(safe, axis=1) & np.isfinite(batch)
        free[active] = np.sort(np.where(taken, ending, free[active]), axis=1)
        started[active] += taken.sum(axis=1)
        done = started[active] >= trials
        ends[active[done]] = free[active[done], -1]
        active = active[~done]
    return ends
