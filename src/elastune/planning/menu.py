"""What a bracket offers when the cluster is shared: plans with their time, cost and peak of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from elastune.planning.case import Case
from elastune.planning.planners import Planner
from elastune.prediction import Outcome, Plan

MAX_SHARES = 24


@dataclass(frozen=True, slots=True)
class Point:
    """A plan and what it leads to."""

    plan: Plan
    outcome: Outcome
    jct_s: float
    cost_usd: float
    peak_nodes: int


@dataclass(frozen=True, slots=True)
class Menu:
    """Points that no other beats in time, cost and peak at once, fastest first.

    `complete`: no plan at all is faster and cheaper in the mean than all of these, whatever its peak.
    """

    points: tuple[Point, ...]
    complete: bool


def write_menu(planner: Planner, case: Case, *, shared: bool = True) -> Menu:
    """The planner's plans for the whole cluster and, if it is shared, for some shares of it."""
    sizes = {option.allocation.nodes for options in case.options for option in options}
    whole = planner.plans(case)
    plans = dict.fromkeys(whole.plans)
    for share in _spread_out(sorted(sizes)) if shared else ():
        plans |= dict.fromkeys(planner.plans(case.within(share)).plans)
    points = []
    for plan in plans:
        outcome = case.evaluator.evaluate(plan)
        points.append(Point(plan, outcome, outcome.mean_jct_s, outcome.mean_cost_usd, plan.peak_nodes))
    return Menu(tuple(_undominated(points)), whole.complete)


def _spread_out(sizes: list[int]) -> list[int]:
    if len(sizes) <= MAX_SHARES:
        return sizes
    return [sizes[i] for i in np.unique(np.geomspace(1, len(sizes), MAX_SHARES).round().astype(int) - 1)]


def _undominated(points: Sequence[Point]) -> list[Point]:
    kept: list[Point] = []
    # By peak: the least cost of a point kept so far with no more nodes.
    cheapest = np.full(max((p.peak_nodes for p in points), default=0) + 1, np.inf)
    for point in sorted(points, key=lambda p: (p.jct_s, p.cost_usd, p.peak_nodes)):
        if point.cost_usd < cheapest[point.peak_nodes]:
            kept.append(point)
            above = cheapest[point.peak_nodes :]
            np.minimum(above, point.cost_usd, out=above)
    return kept


def choose(
    menus: Sequence[Menu], admits: Callable[[Point], bool], max_nodes: float
) -> tuple[Point, ...] | None:
    """The cheapest choice of one admitted point per menu whose peaks together fit; None if there is none.

    A knapsack: `best` maps nodes taken so far to the least cost and the choice that leads there.
    """
    best: dict[int, tuple[float, tuple[Point, ...]]] = {0: (0.0, ())}
    for menu in menus:
        by_peak: dict[int, Point] = {}
        for point in menu.points:
            rival = by_peak.get(point.peak_nodes)
            if admits(point) and (rival is None or point.cost_usd < rival.cost_usd):
                by_peak[point.peak_nodes] = point
        extended: dict[int, tuple[float, tuple[Point, ...]]] = {}
        for taken, (cost, chosen) in best.items():
            for peak, point in by_peak.items():
                nodes, total = taken + peak, cost + point.cost_usd
                if nodes <= max_nodes and total < extended.get(nodes, (math.inf, ()))[0]:
                    extended[nodes] = (total, (*chosen, point))
        best = extended
    return min(best.values(), key=lambda entry: entry[0], default=(0.0, None))[1]
