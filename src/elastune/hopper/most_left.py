"""`list`: start what has most left. Ours, deterministic, and the default.

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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastune.hopper.floor import Bools, Floats, Floor, Indices
from elastune.hopper.left import Left, in_the_way, measure_left
from elastune.hopper.scheduler import Assignment


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

    def dispatch(self, floor: Floor) -> tuple[Assignment, ...]:
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


def _hops_saved(floor: Floor, workers: Indices, trials: Indices) -> Floats:
    at_home: Bools = floor.model_rows()[trials] == workers[:, None]
    saved: Floats = at_home * floor.hop_s[trials]
    return saved


def _with_takeovers(
    floor: Floor, homes: Indices, left: Left, free: tuple[Indices, Indices], may: Bools
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
