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
    # Past the last trial of a row lie trials that never end; `next_trial` points into the flat table.
    padded = np.concatenate([durations, np.full((rows, gangs), np.inf)], axis=1)
    next_trial = np.arange(rows) * padded.shape[1] + gangs
    after_last = np.arange(rows) * padded.shape[1] + trials
    free = np.sort(durations[:, :gangs], axis=1)
    ahead = np.arange(gangs)
    active = np.arange(rows)
    while active.size:
        now_free = free[active]
        batch = padded.take(next_trial[active, None] + ahead)
        ending = now_free + batch
        earliest = np.minimum.accumulate(ending, axis=1)
        safe = np.isfinite(batch)
        safe[:, 1:] &= now_free[:, 1:] <= earliest[:, :-1]
        taken = np.logical_and.accumulate(safe, axis=1)
        free[active] = np.sort(np.where(taken, ending, now_free), axis=1)
        next_trial[active] += taken.sum(axis=1)
        active = active[next_trial[active] < after_last[active]]
    return free[:, -1]
