"""What everyone has left if every unit runs at home, and what would be in the way of those with most left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastune.hopper.floor import Bools, Floats, Floor, Indices


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Seconds by unit, by worker and by trial; and for each pair of trial and worker."""

    units_s: Floats
    workers_s: Floats
    trials_s: Floats
    pairs_s: Floats


def measure_left(floor: Floor, homes: Indices, home_s: Floats) -> Left:
    """Units without a home, or not to be done any more, count nothing. `home_s` is what each takes there."""
    trials, count = len(floor.trials), len(floor.workers) + 1
    units_s = home_s * floor.todo
    cells = homes + np.arange(1, trials * count, count)[:, None]  # column 0 is of those without a home
    sums: Floats = np.bincount(cells.ravel(), units_s.ravel(), trials * count).astype(float, copy=False)
    pairs_s = sums.reshape(trials, count)[:, 1:]
    return Left(
        units_s=units_s,
        workers_s=np.ones(trials) @ pairs_s,
        trials_s=pairs_s @ np.ones(count - 1),
        pairs_s=pairs_s,
    )


def in_the_way(floor: Floor, left: Left, workers: Indices, trials: Indices) -> Bools:
    """By free worker and trial: whether their unit would keep somebody waiting who cannot afford it.

    A worker that is busy now wants one of its trials when it is free again. If only one of them will be free
    then, that one should not have begun something long elsewhere. The same holds for a busy trial.
    """
    worker_waits_s, trial_waits_s = floor.waits_s()
    worker_over_s, trial_over_s = worker_waits_s + left.workers_s, trial_waits_s + left.trials_s
    level_s = max(float(worker_over_s.max()), float(trial_over_s.max()))
    length_s = left.pairs_s[np.ix_(trials, workers)].T
    blocked = np.zeros(length_s.shape, dtype=bool)
    needs = left.pairs_s > 0
    # Of the trials that a worker needs, all but those underway are free: mostly there is choice enough.
    scarce = np.count_nonzero(needs, axis=0) <= len(floor.running) + 1
    for row, only in _with_one_choice(needs[:, scarce], trial_waits_s, worker_waits_s[scarce]):
        worker = np.flatnonzero(scarce)[row]
        spare_s = level_s - left.workers_s[worker]
        blocked |= (trials == only) & (length_s > spare_s)
    busy = np.flatnonzero(~floor.trial_free)
    for row, only in _with_one_choice(needs[busy].T, worker_waits_s, trial_waits_s[busy]):
        spare_s = level_s - left.trials_s[busy[row]]
        blocked |= (workers == only)[:, None] & (length_s > spare_s)
    return blocked


def _with_one_choice(needs: Bools, waits_s: Floats, own_waits_s: Floats) -> list[tuple[int, int]]:
    """Who (columns) will be free after a wait and then find just one of those it needs (rows), and which."""
    if not needs.shape[1]:
        return []
    choice = needs & (waits_s[:, None] <= own_waits_s)
    single = (np.count_nonzero(choice, axis=0) == 1) & (own_waits_s > 0)
    return [(int(column), int(np.argmax(choice[:, column]))) for column in np.flatnonzero(single)]
