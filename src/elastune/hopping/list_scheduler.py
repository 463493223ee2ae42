"""What everyone has left if every unit runs at home, and what would be in the way of those with most left.

`list`: start what has most left. Ours, deterministic, and the default.

The rest of an epoch takes at least as long as the busiest worker and the longest trial still need. So those
with most left must not wait: free workers and free trials are matched such that the work left of all that get
a partner is the largest possible. Since the weights belong to the partners and not to the pairs, this is the
matching that serves the neediest, then the next, and so on. Where all units take equally long and nothing is
replicated it is König's edge colouring and the schedule optimal. One free worker takes the trial with most
left, unless a worker or trial that is busy and cannot afford to wait will need one of the two (`left.py`).

*Replicas*: every unit has a home among the holders of its partition (`homes.py`). A worker without work of
its own takes over a unit if its home would not get to it sooner and its trial can afford it.

*Hops*: staying on a worker counts as much as the hop that it saves.

A rule like this ends up to some percent above the bound where few trials of very different length meet few
workers. So it is rehearsed (`rehearsal.py`) and goes on with the weights that came out best.

Which holder each unit is meant for, where partitions are replicated: loads first, the order later.

The list scheduler: it rehearses what is left of an epoch, then keeps to the guide that came out best.

The first rehearsal takes the rule as it is. If that does not reach the bound, others follow in which trials
are more or less urgent, by factors that are drawn but always the same: the same floor gives the same guide.
Large epochs have no rehearsal: there the rule as it is comes out at the bound.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from elastune.hopping.epoch import Epoch
from elastune.hopping.epoch_state import Assignment, Bools, EpochState, Floats, Indices
from elastune.hopping.lower_bound import Load, lower_bound_s, relax
from elastune.hopping.simulation import simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLeft:
    """Seconds by unit, by worker and by trial; and for each pair of trial and worker."""

    units_s: Floats
    workers_s: Floats
    trials_s: Floats
    pairs_s: Floats


def measure_left(floor: EpochState, homes: Indices, home_s: Floats) -> WorkLeft:
    """Units without a home, or not to be done any more, count nothing. `home_s` is what each takes there."""
    trials, count = len(floor.trials), len(floor.workers) + 1
    units_s = home_s * floor.todo
    cells = homes + np.arange(1, trials * count, count)[:, None]  # column 0 is of those without a home
    sums: Floats = np.bincount(cells.ravel(), units_s.ravel(), trials * count).astype(float, copy=False)
    pairs_s = sums.reshape(trials, count)[:, 1:]
    return WorkLeft(
        units_s=units_s,
        workers_s=np.ones(trials) @ pairs_s,
        trials_s=pairs_s @ np.ones(count - 1),
        pairs_s=pairs_s,
    )


def in_the_way(floor: EpochState, left: WorkLeft, workers: Indices, trials: Indices) -> Bools:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """Where units are meant to run, what they take there, and by which factor a trial counts more."""

    homes: Indices
    home_s: Floats
    urgency: Floats


@dataclass(frozen=True, slots=True)
class Guided:
    """The rule with a given guide. The same floor, the same answer."""

    guide: Guide

    def dispatch(self, floor: EpochState) -> tuple[Assignment, ...]:
        workers, trials = np.flatnonzero(floor.worker_free), np.flatnonzero(floor.trial_free)
        trials = trials[floor.todo[trials].any(axis=1)]
        if not len(workers) or not len(trials):
            return ()
        left = measure_left(floor, self.guide.homes, self.guide.home_s)
        may = (self.guide.homes[trials] == workers[:, None, None]) & floor.todo[trials]
        if floor.has_replicas:
            may = _with_takeovers(floor, self.guide.homes, left, (workers, trials), may)
        weights = np.add.outer(left.workers_s[workers], (left.trials_s * self.guide.urgency)[trials])
        weights += _hops_saved(floor, workers, trials)
        weights[~may.any(axis=2)] = 0.0
        if floor.running:
            weights[in_the_way(floor, left, workers, trials)] = 0.0
        chosen = []
        for w, t in _match(weights):
            column = int(np.argmax(np.where(may[w, t], left.units_s[trials[t]], -1.0)))
            chosen.append(Assignment(floor.unit(int(trials[t]), column), floor.workers[workers[w]].id))
        return tuple(chosen)


def _match(weights: Floats) -> list[tuple[int, int]]:
    """Pairs of row and column of the largest total; pairs of weight 0 are none."""
    if len(weights) == 1:  # nearly always, and a solver would take ten times as long
        best = int(np.argmax(weights[0]))
        return [(0, best)] if weights[0, best] > 0 else []
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  a fifth of a second

    rows, columns = linear_sum_assignment(weights, maximize=True)
    return [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if weights[r, c] > 0]


def _hops_saved(floor: EpochState, workers: Indices, trials: Indices) -> Floats:
    at_home: Bools = floor.model_rows()[trials] == workers[:, None]
    saved: Floats = at_home * floor.hop_s[trials]
    return saved


def _with_takeovers(
    floor: EpochState, homes: Indices, left: WorkLeft, free: tuple[Indices, Indices], may: Bools
) -> Bools:
    """What each may start; for workers that can start nothing of their own, what they may do for others."""
    workers, trials = free
    idle = workers[~may.any(axis=(1, 2))]
    if not len(idle):
        return may
    waits_s, _ = floor.waits_s()
    over_s = waits_s + left.workers_s  # when each home would be through with all its units
    level_s = max(float(over_s.max()), float(left.trials_s.max()))
    here_s = floor.unit_s[idle[:, None], trials]
    helps = here_s <= over_s[homes[trials]]
    harmless = here_s - left.units_s[trials] + left.trials_s[trials, None] <= level_s
    both = may.copy()
    both[np.isin(workers, idle)] = helps & harmless & floor.holds[idle][:, None, :] & floor.todo[trials]
    return both


# A part of this size is the whole unit, but for the rounding of the solver.
WHOLE = 1 - 1e-6


def assign_homes(floor: EpochState) -> Indices:
    """The row of a worker by (trial, partition); -1 without a holder.

    A vertex of the linear program cuts no more units than there are workers and trials. Those, and where the
    program is too large all, are given away one by one.
    """
    workers_s, trials_s = floor.waits_s()
    load = Load(
        seconds=np.where(floor.holds[:, None, :], floor.unit_s, np.inf),
        todo=floor.todo & floor.holds.any(axis=0),
        workers_s=workers_s,
        trials_s=trials_s,
    )
    if not len(floor.workers):
        return np.full(floor.todo.shape, -1)
    parts = load.ways.astype(float)
    if load.has_choice:
        relaxed = relax(load)
        parts = np.zeros(parts.shape) if relaxed is None else relaxed.parts
    homes = _give_away(load, parts.argmax(axis=0), load.todo & (parts.max(axis=0) < WHOLE))
    # Units underway may fail and come back: they are at home with the first holder.
    homes = np.where(load.todo, homes, floor.holds.argmax(axis=0))
    return np.where(floor.holds.any(axis=0), homes, -1)


def _give_away(load: Load, homes: Indices, is_open: Bools) -> Indices:
    """Every open unit, longest first, to the holder where neither worker nor trial gets long."""
    settled = load.todo & ~is_open
    seconds = np.take_along_axis(load.seconds, homes[None], axis=0)[0]
    workers_s = load.workers_s + np.bincount(homes[settled], seconds[settled], len(load.workers_s))
    trials_s = load.trials_s + np.where(settled, seconds, 0.0).sum(axis=1)
    given = homes.copy()
    trials, partitions = np.nonzero(is_open)
    shortest_s = load.seconds.min(axis=0)[trials, partitions]
    for index in np.argsort(-shortest_s, kind="stable"):
        trial, partition = trials[index], partitions[index]
        here_s = load.seconds[:, trial, partition]
        home = np.lexsort((workers_s + here_s, np.maximum(workers_s, trials_s[trial]) + here_s))[0]
        given[trial, partition] = home
        workers_s[home] += here_s[home]
        trials_s[trial] += here_s[home]
    return given


def time_at_home(floor: EpochState, homes: Indices) -> Floats:
    """What every unit takes at home; nothing without one."""
    if not len(floor.workers):
        return np.zeros(homes.shape)
    trials, partitions = np.indices(homes.shape)
    return np.where(homes >= 0, floor.unit_s[homes, trials, partitions], 0.0)


MOST_REHEARSALS = 64
MOST_UNITS = 8_000
"""In all rehearsals together, which takes about a second."""
WORTH_WHILE = 8
"""With fewer rehearsals than this nothing is found; epochs so large need none."""
GOOD_ENOUGH = 1e-9
SPREADS = (0.1, 0.2, 0.3, 0.4)


class MostLeft:
    """Rehearses at the first question, and again whenever a worker has come or gone."""

    def __init__(self, *, rehearsals: int = MOST_REHEARSALS, tolerance: float = GOOD_ENOUGH) -> None:
        """`tolerance`: how far above the bound, as a part of it, an epoch may end without another try."""
        self._rehearsals = rehearsals
        self._tolerance = tolerance
        self._guided: Guided | None = None
        self._roster = -1

    def dispatch(self, floor: EpochState) -> tuple[Assignment, ...]:
        if self._guided is None or self._roster != floor.roster:
            self._guided = Guided(rehearse(floor, self._rehearsals, self._tolerance))
            self._roster = floor.roster
        return self._guided.dispatch(floor)


def rehearse(floor: EpochState, most: int = MOST_REHEARSALS, tolerance: float = GOOD_ENOUGH) -> Guide:
    """The best guide for what is left on this floor."""
    epoch = floor.snapshot()
    stage = EpochState(epoch)  # the same, without the rows of lost workers
    homes = assign_homes(stage)
    guide = Guide(homes=homes, home_s=time_at_home(stage, homes), urgency=np.ones(len(stage.trials)))
    most = min(most, MOST_UNITS // (int(np.count_nonzero(stage.todo)) + 1))
    if most >= WORTH_WHILE:
        guide = _best_of(epoch, guide, most, tolerance)
    rows = np.array([row for row, each in enumerate(floor.workers) if floor.is_present(each.id)] or [-1])
    return replace(guide, homes=np.where(guide.homes >= 0, rows[guide.homes], -1))


def _best_of(epoch: Epoch, guide: Guide, most: int, tolerance: float) -> Guide:
    bound_s = lower_bound_s(epoch)
    draw = np.random.default_rng(0)
    best, best_s = guide, math.inf
    for spread, _ in zip(itertools.cycle(SPREADS), range(most), strict=False):
        makespan_s = simulate(epoch, Guided(guide), bound_s=bound_s).makespan_s
        if makespan_s < best_s:
            best, best_s = guide, makespan_s
        if best_s <= bound_s * (1 + tolerance):
            break
        guide = replace(guide, urgency=np.exp(spread * draw.standard_normal(len(guide.urgency))))
    return best
