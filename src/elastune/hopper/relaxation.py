"""An epoch with units that may be cut: a linear program that proves bounds and says who does what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from elastune.hopper.floor import Bools, Floats

# A larger program would take seconds.
MOST_VARIABLES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Seconds by (worker, trial, partition), infinite where not held; what is to do; what is fixed."""

    seconds: Floats
    todo: Bools
    workers_s: Floats
    trials_s: Floats

    @property
    def ways(self) -> Bools:
        """Where each unit that is to do can run."""
        ways: Bools = np.isfinite(self.seconds) & self.todo
        return ways

    @property
    def has_choice(self) -> bool:
        return bool((self.ways.sum(axis=0) > 1).any())


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """`parts` of every unit by (worker, trial, partition); what a second of a worker or trial is worth."""

    parts: Floats
    worker_prices: Floats
    trial_prices: Floats


def relax(load: Load) -> Relaxed | None:
    """Give units to holders, in parts, so that the largest load is least; None if there are too many."""
    from scipy import sparse  # noqa: PLC0415  only epochs with replicas need a solver
    from scipy.optimize import linprog  # noqa: PLC0415

    ways = load.ways
    workers, trials, partitions = ways.shape
    w, t, p = np.nonzero(ways)
    if len(w) > MOST_VARIABLES:
        return None
    seconds, column, rows = load.seconds[w, t, p], np.arange(len(w)), workers + trials
    values = np.concatenate([seconds, seconds, -np.ones(rows)])
    places = (
        np.concatenate([w, workers + t, np.arange(rows)]),
        np.concatenate([column, column, np.full(rows, len(w))]),  # the last variable is the makespan
    )
    loads: Any = sparse.coo_array((values, places), shape=(rows, len(w) + 1)).tocsr()
    _, unit = np.unique(t * partitions + p, return_inverse=True)
    count = int(unit.max()) + 1
    whole: Any = sparse.coo_array(
        (np.ones(len(w)), (unit, column)), shape=(unit.max() + 1, len(w) + 1)
    ).tocsr()
    solved = linprog(
        np.append(np.zeros(len(w)), 1.0),
        A_ub=loads,
        b_ub=-np.concatenate([load.workers_s, load.trials_s]),
        A_eq=whole,
        b_eq=np.ones(count),
        method="highs",
    )
    if solved.status != 0 or solved.x is None:
        return None
    parts = np.zeros(ways.shape)
    parts[w, t, p] = solved.x[:-1]
    prices = np.maximum(0.0, -np.asarray(solved.ineqlin.marginals, dtype=float))
    return Relaxed(parts=parts, worker_prices=prices[:workers], trial_prices=prices[workers:])
