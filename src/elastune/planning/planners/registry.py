"""The planners by name. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elastune.model.limits import Outcome
from elastune.planning.planners.baselines import (
    greedy_plans,
    naive_elastic_plans,
    plan_greedy,
    plan_naive_elastic,
)
from elastune.planning.planners.exact import exact_plans, plan_exact
from elastune.planning.planners.lower_bound import lower_bound
from elastune.planning.planners.static import plan_static, static_plans
from elastune.planning.problem import Case, PlanSet, Solution

DEFAULT_PLANNER = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    solve: Callable[[Case], Solution | None]  # the best plan that keeps the limits, or None
    plans: Callable[[Case], PlanSet]  # its plans for all trades of time against money
    compared: bool = True  # shown where all planners are compared
    bound: Callable[[Case, Outcome], float] | None = None
    """A lower bound for plans within the limits of a case, given the outcome of one that keeps them."""


PLANNERS: dict[str, Planner] = {
    "exact": Planner(solve=plan_exact, plans=exact_plans, bound=lower_bound),
    "greedy": Planner(solve=plan_greedy, plans=greedy_plans),
    "greedy-fair": Planner(
        solve=lambda case: plan_greedy(case.fairly()),
        plans=lambda case: greedy_plans(case.fairly()),
        compared=False,
    ),
    "static": Planner(solve=plan_static, plans=static_plans),
    "naive-elastic": Planner(solve=plan_naive_elastic, plans=naive_elastic_plans),
}
