"""A lower bound on the makespan of an epoch, and the linear program behind it, in which units may be cut.

Give every worker and every trial a price, all prices together 1. In a makespan C each of them can be busy for
C at most, so C is at least the priced time of all units, each on its holder of the least priced time. That
holds for any prices. Without replicas the best prices put all on the busiest worker or on the longest trial.
With replicas they are the duals of the linear program (`relax`); as the bound holds for any prices, the
solver's rounding cannot make it wrong. Hops count if they are certain: a trial must visit every node that has
a worker which alone holds one of its partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from elastune.hopping.epoch import Epoch
from elastune.hopping.epoch_state import Bools, EpochState, Floats

# A larger program would take seconds.
MOST_VARIABLES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    seconds: Floats  # by (worker, trial, partition), infinite if not held
    todo: Bools
    workers_s: Floats  # fixed load of each worker
    trials_s: Floats  # and of each trial

    @property
    def ways(self) -> Bools:
        ways: Bools = np.isfinite(self.seconds) & self.todo
        return ways

    @property
    def has_choice(self) -> bool:
        return bool((self.ways.sum(axis=0) > 1).any())


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    parts: Floats  # of every unit, by (worker, trial, partition)
    worker_prices: Floats
    trial_prices: Floats


def relax(load: Load) -> Relaxed | None:
    """Divide units among holders so that the largest load is least; None if there are too many units."""
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
    whole: Any = sparse.coo_array((np.ones(len(w)), (unit, column)), shape=(count, len(w) + 1)).tocsr()
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


def lower_bound_s(epoch: Epoch) -> float:
    """No schedule of the rest of the epoch takes fewer seconds; units without a holder do not count."""
    load = _certain_load(EpochState(epoch))
    workers, trials = load.seconds.shape[:2]
    if not workers or not trials:
        return 0.0
    no_worker, no_trial = np.zeros(workers), np.zeros(trials)
    tries = [(price, no_trial) for price in np.eye(workers)]
    tries.append((no_worker, _all_on_the_longest_trial(load)))
    if load.has_choice:
        tries += [(np.ones(workers), no_trial), (_speeds(load), no_trial)]
        relaxed = relax(load)
        if relaxed is not None:
            tries.append((relaxed.worker_prices, relaxed.trial_prices))
    return max(_priced(load, *prices) for prices in tries)


def _priced(load: Load, workers: Floats, trials: Floats) -> float:
    total = float(workers.sum() + trials.sum())
    if total <= 0:
        return 0.0
    finite = np.where(np.isfinite(load.seconds), load.seconds, 0.0)
    priced = (workers[:, None, None] + trials[None, :, None]) * finite
    cheapest = np.where(np.isfinite(load.seconds), priced, np.inf).min(axis=0)
    certain = workers @ load.workers_s + trials @ load.trials_s
    return float(cheapest[load.todo].sum() + certain) / total


def _certain_load(state: EpochState) -> Load:
    """The work left, with the rest of units underway and unavoidable hops."""
    todo = state.todo & state.holds.any(axis=0)
    workers_s, trials_s = state.waits_s()
    alone = state.holds & (state.holds.sum(axis=0) == 1)
    visits = (alone.astype(int) @ todo.T.astype(int)) > 0
    comes = visits & ~state.is_near()
    nodes, counts = np.unique(state.node_rows, return_counts=True)
    # One of the workers of a node waits for the model, but it is not known which.
    is_single = np.isin(state.node_rows, nodes[counts == 1])
    # A new model is made at its first visit, on one of its nodes, and hops to the others; one that is on the
    # only node has nowhere to hop.
    is_new = state.is_near().all(axis=0) & visits.any(axis=0)
    hops = np.zeros(len(state.trials))
    for node in nodes:
        hops += np.where(is_new, visits, comes)[state.node_rows == node].any(axis=0)
    hops = np.maximum(0.0, hops - is_new)
    return Load(
        seconds=np.where(state.holds[:, None, :], state.train_s[:, :, None] * state.sizes, np.inf),
        todo=todo,
        workers_s=workers_s + (comes & is_single[:, None]) @ state.hop_s,
        trials_s=trials_s + hops * state.hop_s + todo.any(axis=1) * state.last_s,
    )


def _all_on_the_longest_trial(load: Load) -> Floats:
    """The whole price on the trial that takes longest even if it always finds its best worker."""
    cheapest = np.where(load.todo, load.seconds.min(axis=0), 0.0).sum(axis=1) + load.trials_s
    prices = np.zeros(len(cheapest))
    prices[int(np.argmax(cheapest))] = 1.0
    return prices


def _speeds(load: Load) -> Floats:
    """Prices at which a unit costs the same everywhere, if workers differ only in speed."""
    finite = np.where(np.isfinite(load.seconds), load.seconds, 0.0)
    total, count = finite.sum(axis=(1, 2)), (finite > 0).sum(axis=(1, 2))
    speeds: Floats = np.divide(count, total, out=np.zeros(len(total)), where=total > 0)
    return speeds
