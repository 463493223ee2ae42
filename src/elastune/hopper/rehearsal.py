"""The list scheduler: it rehearses what is left of an epoch, then keeps to the guide that came out best.

The first rehearsal takes the rule as it is. If that does not reach the bound, others follow in which trials
are more or less urgent, by factors that are drawn but always the same: the same floor gives the same guide.
Large epochs have no rehearsal: there the rule as it is comes out at the bound.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from elastune.hopper.epoch import Epoch
from elastune.hopper.floor import Floor
from elastune.hopper.homes import assign_homes, time_at_home
from elastune.hopper.lower_bound import lower_bound_s
from elastune.hopper.most_left import Guide, Guided
from elastune.hopper.scheduler import Assignment
from elastune.hopper.simulation import simulate

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

    def dispatch(self, floor: Floor) -> tuple[Assignment, ...]:
        if self._guided is None or self._roster != floor.roster:
            self._guided = Guided(rehearse(floor, self._rehearsals, self._tolerance))
            self._roster = floor.roster
        return self._guided.dispatch(floor)


def rehearse(floor: Floor, most: int = MOST_REHEARSALS, tolerance: float = GOOD_ENOUGH) -> Guide:
    """The best guide for what is left on this floor."""
    epoch = floor.snapshot()
    stage = Floor(epoch)  # the same, without the rows of lost workers
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
