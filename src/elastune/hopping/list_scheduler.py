"""`list`: start the work of those with most left. Ours, deterministic, and the default.

The rest of an epoch takes at least as long as the busiest worker and the longest trial still need. So those
with most left must not wait: free workers and free trials are matched so that the work left of all matched
ones is the largest possible. The weights belong to the partners and not to the pairs, so the matching serves
the one with most left, then the next, and so on. If all units take equally long and nothing is replicated
this is König's edge colouring and the schedule optimal. A single free worker takes the trial with most left,
unless a busy worker or trial that cannot afford to wait will need one of the two (`in_the_way`). Workers and
trials that will be free in a moment are matched, too, as if they were free.

*Replicas*: every unit has a home among the holders of its partition (`assign_homes`). A worker without work
of its own takes over a unit if its home would not get to it sooner and its trial can afford it.
*Hops*: staying on a worker counts as much as the hop that it saves.

The rule ends up to some percent above the bound if few trials of very different length meet few workers. So
the rest of the epoch is simulated, first with the rule as it is; if that misses the bound, with trials more
or less urgent by random factors of a fixed seed; and the best variant is kept. Large epochs need no
simulation: there the rule as it is reaches the bound.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from elastune.hopping.epoch import Epoch
from elastune.hopping.epoch_state import Assignment, Bools, EpochState, Floats, Indices
from elastune.hopping.lower_bound import Load, lower_bound_s, relax
from elastune.hopping.simulation import simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLeft:
    """Seconds by unit, by worker, by trial (with its later epochs), and by pair of trial and worker."""

    units_s: Floats
    workers_s: Floats
    trials_s: Floats
    pairs_s: Floats


def measure_left(state: EpochState, homes: Indices, home_s: Floats) -> WorkLeft:
    """The work left if every unit runs at home, for `home_s`; units without a home or done count nothing."""
    trials, count = len(state.trials), len(state.workers) + 1
    units_s = home_s * state.todo
    cells = homes + np.arange(1, trials * count, count)[:, None]  # column 0 is for units without a home
    sums: Floats = np.bincount(cells.ravel(), units_s.ravel(), trials * count).astype(float, copy=False)
    pairs_s = sums.reshape(trials, count)[:, 1:]
    return WorkLeft(
        units_s=units_s,
        workers_s=np.ones(trials) @ pairs_s,
        trials_s=pairs_s @ np.ones(count - 1) + state.later_s,
        pairs_s=pairs_s,
    )


def in_the_way(state: EpochState, left: WorkLeft, workers: Indices, trials: Indices) -> Bools:
    """By free worker and trial: whether their unit would block a busy one that cannot afford to wait.

    A busy worker needs one of its trials when it is free again. If only one of them will be free then, that
    one should not have begun a long unit elsewhere. The same holds for a busy trial.
    """
    worker_waits_s, trial_waits_s = state.waits_s()
    worker_over_s, trial_over_s = worker_waits_s + left.workers_s, trial_waits_s + left.trials_s
    level_s = max(float(worker_over_s.max()), float(trial_over_s.max()))
    length_s = left.pairs_s[np.ix_(trials, workers)].T
    blocked = np.zeros(length_s.shape, dtype=bool)
    needs = left.pairs_s > 0
    # Of the trials that a worker needs, all but those underway are free: usually there are enough.
    scarce = np.count_nonzero(needs, axis=0) <= len(state.running) + 1
    for row, only in _with_one_choice(needs[:, scarce], trial_waits_s, worker_waits_s[scarce]):
        worker = np.flatnonzero(scarce)[row]
        spare_s = level_s - left.workers_s[worker]
        blocked |= (trials == only) & (length_s > spare_s)
    busy = np.flatnonzero(~state.trial_free)
    for row, only in _with_one_choice(needs[busy].T, worker_waits_s, trial_waits_s[busy]):
        spare_s = level_s - left.trials_s[busy[row]]
        blocked |= (workers == only)[:, None] & (length_s > spare_s)
    return blocked


def _with_one_choice(needs: Bools, waits_s: Floats, own_waits_s: Floats) -> list[tuple[int, int]]:
    """The columns that, when free after a wait, will find just one free row that they need; and that row."""
    if not needs.shape[1]:
        return []
    choice = needs & (waits_s[:, None] <= own_waits_s)
    single = (np.count_nonzero(choice, axis=0) == 1) & (own_waits_s > 0)
    return [(int(column), int(np.argmax(choice[:, column]))) for column in np.flatnonzero(single)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """Where units should run, what they take there, and the factor by which a trial counts more."""

    homes: Indices
    home_s: Floats
    urgency: Floats


class _Pair(NamedTuple):
    """Rows of a worker and a trial, and the column of the partition."""

    worker: int
    trial: int
    column: int


@dataclass(slots=True)
class Guided:
    """The rule with a given guide, for one epoch.

    What is free in a moment is matched with what is free now, once: those that are reported later in the same
    instant find the decision made.
    """

    guide: Guide
    _workers: set[int] = field(default_factory=set)
    """Rows for which this instant is decided, also those that have to wait."""
    _trials: set[int] = field(default_factory=set)
    _pairs: list[_Pair] = field(default_factory=list)
    """Decided, and not both free yet."""

    def dispatch(self, state: EpochState) -> tuple[Assignment, ...]:
        if not state.worker_free.any() or not state.trial_free.any():
            return ()
        workers, trials = state.free_now()
        trials = trials[state.todo[trials].any(axis=1)]
        present = set(workers.tolist()), set(trials.tolist())
        pairs = [each for each in self._pairs if _can_come(state, each, present)]
        is_decided = present[0] <= self._workers and present[1] <= self._trials
        if not is_decided or not state.running or len(pairs) < len(self._pairs):
            if pairs:  # both are sorted
                workers = np.array(sorted(present[0].difference(each.worker for each in pairs)), int)
                trials = np.array(sorted(present[1].difference(each.trial for each in pairs)), int)
            pairs += self._match(state, workers, trials)
        begun = [each for each in pairs if state.worker_free[each.worker] and state.trial_free[each.trial]]
        self._pairs = [each for each in pairs if each not in begun]
        self._workers = present[0].difference(each.worker for each in begun)
        self._trials = present[1].difference(each.trial for each in begun)
        return tuple(
            Assignment(state.unit(each.trial, each.column), state.workers[each.worker].id) for each in begun
        )

    def _match(self, state: EpochState, workers: Indices, trials: Indices) -> list[_Pair]:
        if not len(workers) or not len(trials):
            return []
        left = measure_left(state, self.guide.homes, self.guide.home_s)
        may = (self.guide.homes[trials] == workers[:, None, None]) & state.todo[trials]
        if state.has_replicas:
            may = _with_takeovers(state, self.guide.homes, left, (workers, trials), may)
        weights = np.add.outer(left.workers_s[workers], (left.trials_s * self.guide.urgency)[trials])
        weights += state.is_near()[np.ix_(workers, trials)] * state.hop_s[trials]  # hops saved
        weights[~may.any(axis=2)] = 0.0
        if state.running:
            weights[in_the_way(state, left, workers, trials)] = 0.0
        return [
            _Pair(
                int(workers[w]),
                int(trials[t]),
                int(np.argmax(np.where(may[w, t], left.units_s[trials[t]], -1.0))),
            )
            for w, t in _match(weights)
        ]


def _can_come(state: EpochState, pair: _Pair, present: tuple[set[int], set[int]]) -> bool:
    is_present = pair.worker in present[0] and pair.trial in present[1]
    return is_present and bool(state.todo[pair.trial, pair.column] and state.holds[pair.worker, pair.column])


def _match(weights: Floats) -> list[tuple[int, int]]:
    """Pairs of row and column with the largest total; pairs of weight 0 are left out."""
    if len(weights) == 1:  # the usual case; a solver would take ten times as long
        best = int(np.argmax(weights[0]))
        return [(0, best)] if weights[0, best] > 0 else []
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  takes a fifth of a second

    rows, columns = linear_sum_assignment(weights, maximize=True)
    return [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if weights[r, c] > 0]


def _with_takeovers(
    state: EpochState, homes: Indices, left: WorkLeft, free: tuple[Indices, Indices], may: Bools
) -> Bools:
    """What each may start; for workers without startable units of their own, units of others."""
    workers, trials = free
    idle = workers[~may.any(axis=(1, 2))]
    if not len(idle):
        return may
    waits_s, _ = state.waits_s()
    over_s = waits_s + left.workers_s  # when each home would have done all its units
    level_s = max(float(over_s.max()), float(left.trials_s.max()))
    here_s = state.unit_s[idle[:, None], trials]
    helps = here_s <= over_s[homes[trials]]
    harmless = here_s - left.units_s[trials] + left.trials_s[trials, None] <= level_s
    both = may.copy()
    both[np.isin(workers, idle)] = helps & harmless & state.holds[idle][:, None, :] & state.todo[trials]
    return both


# A part of this size is a whole unit, rounded by the solver.
WHOLE = 1 - 1e-6


def assign_homes(state: EpochState) -> Indices:
    """The row of the worker that should run each unit, by (trial, partition); -1 without a holder.

    A vertex of the linear program cuts no more units than there are workers and trials. Those units, or all
    if the program is too large, are assigned one by one.
    """
    workers_s, trials_s = state.waits_s()
    load = Load(
        seconds=np.where(state.holds[:, None, :], state.unit_s, np.inf),
        todo=state.todo & state.holds.any(axis=0),
        workers_s=workers_s,
        trials_s=trials_s,
    )
    if not len(state.workers):
        return np.full(state.todo.shape, -1)
    parts = load.ways.astype(float)
    if load.has_choice:
        relaxed = relax(load)
        parts = np.zeros(parts.shape) if relaxed is None else relaxed.parts
    homes = _assign_open(load, parts.argmax(axis=0), load.todo & (parts.max(axis=0) < WHOLE))
    # Units underway may fail and run again: their home is the first holder.
    homes = np.where(load.todo, homes, state.holds.argmax(axis=0))
    return np.where(state.holds.any(axis=0), homes, -1)


def _assign_open(load: Load, homes: Indices, is_open: Bools) -> Indices:
    """Assign every open unit, longest first, to the holder where worker and trial end soonest."""
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


def time_at_home(state: EpochState, homes: Indices) -> Floats:
    """Seconds of every unit at home; 0 without a home."""
    if not len(state.workers):
        return np.zeros(homes.shape)
    trials, partitions = np.indices(homes.shape)
    return np.where(homes >= 0, state.unit_s[homes, trials, partitions], 0.0)


MOST_SIMULATIONS = 64
MOST_UNITS = 8_000  # in all simulations together, which takes about a second
WORTH_WHILE = 8  # fewer simulations find nothing; epochs so large need none
GOOD_ENOUGH = 1e-9
SPREADS = (0.1, 0.2, 0.3, 0.4)


class MostLeft:
    """Finds its guide at the first dispatch, and again whenever a worker has joined or left."""

    def __init__(self, *, simulations: int = MOST_SIMULATIONS, tolerance: float = GOOD_ENOUGH) -> None:
        """`tolerance`: how far above the bound, as a share of it, an epoch may end without another try."""
        self._simulations = simulations
        self._tolerance = tolerance
        self._guided: Guided | None = None
        self._roster = -1

    def dispatch(self, state: EpochState) -> tuple[Assignment, ...]:
        if self._guided is None or self._roster != state.roster:
            self._guided = Guided(find_guide(state, self._simulations, self._tolerance))
            self._roster = state.roster
        return self._guided.dispatch(state)


def find_guide(state: EpochState, most: int, tolerance: float) -> Guide:
    guide = _guide_of(_Rest(state.snapshot()), most, tolerance)
    rows = np.array([row for row, each in enumerate(state.workers) if state.is_present(each.id)] or [-1])
    return replace(guide, homes=np.where(guide.homes >= 0, rows[guide.homes], -1))


@dataclass(frozen=True, slots=True, eq=False)
class _Rest:
    """The rest of an epoch as a key."""

    epoch: Epoch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rest) and self.epoch == other.epoch

    def __hash__(self) -> int:
        epoch = self.epoch
        return hash((epoch.trials, epoch.partitions, len(epoch.workers), epoch.done, epoch.underway))


@functools.lru_cache(maxsize=1024)
def _guide_of(rest: _Rest, most: int, tolerance: float) -> Guide:
    """Remembered, because the same epochs come again: in a plan and its run, and when a journal is read."""
    epoch = rest.epoch
    present = EpochState(epoch)  # without the rows of lost workers
    homes = assign_homes(present)
    guide = Guide(homes=homes, home_s=time_at_home(present, homes), urgency=np.ones(len(present.trials)))
    most = min(most, MOST_UNITS // (int(np.count_nonzero(present.todo)) + 1))
    return _best_of(epoch, guide, most, tolerance) if most >= WORTH_WHILE else guide


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
