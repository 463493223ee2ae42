"""The trade of time against money: of one spec, and of several that run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastune.planning.case import Case
from elastune.planning.planners import Planner
from elastune.prediction import Outcome, Plan


@dataclass(frozen=True, slots=True)
class Point:
    """A plan that no other beats in both mean time and mean cost."""

    plan: Plan
    outcome: Outcome

    @property
    def jct_s(self) -> float:
        return self.outcome.mean_jct_s

    @property
    def cost_usd(self) -> float:
        return self.outcome.mean_cost_usd


@dataclass(frozen=True, slots=True)
class Frontier:
    """Points, fastest first. `complete`: no plan at all lies below it in the mean."""

    points: tuple[Point, ...]
    complete: bool


def trace_frontier(planner: Planner, case: Case) -> Frontier:
    """The undominated ones of a planner's plans."""
    traced = planner.plans(case)
    points = [Point(plan, case.evaluator.evaluate(plan)) for plan in traced.plans]
    frontier: list[Point] = []
    for point in sorted(points, key=lambda p: (p.jct_s, p.cost_usd)):
        if not frontier or point.cost_usd < frontier[-1].cost_usd:
            frontier.append(point)
    return Frontier(tuple(frontier), traced.complete)


def side_by_side(traced: Sequence[Frontier]) -> list[tuple[Point, ...]]:
    """Frontiers added at equal time: by each moment, the cheapest plan of every spec that ends by then."""
    frontiers = [frontier.points for frontier in traced]
    if not all(frontiers):
        return []
    first = max(frontier[0].jct_s for frontier in frontiers)
    moments = sorted({point.jct_s for frontier in frontiers for point in frontier if point.jct_s >= first})
    chosen = [0] * len(frontiers)
    combined = []
    for moment in moments:
        for i, frontier in enumerate(frontiers):
            while chosen[i] + 1 < len(frontier) and frontier[chosen[i] + 1].jct_s <= moment:
                chosen[i] += 1
        combined.append(tuple(frontier[at] for frontier, at in zip(frontiers, chosen, strict=True)))
    return combined
