"""The planners by name. Adding one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elastune.planning.case import Case
from elastune.planning.exact import exact_plans, plan_exact
from elastune.planning.greedy import greedy_plans, plan_greedy
from elastune.planning.lower_bound import lower_bound
from elastune.planning.naive_elastic import naive_elastic_plans, plan_naive_elastic
from elastune.planning.solution import PlanSet, Solution
from elastune.planning.static import plan_static, static_plans
from elastune.prediction import Outcome

DEFAULT_PLANNER = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """One way to choose plans."""

    solve: Callable[[Case], Solution | None]
    """The best plan that keeps the limits, or None."""
    plans: Callable[[Case], PlanSet]
    """Its plans for all trades of time against money."""
    bound: Callable[[Case, Outcome], float] | None = None
    """What no plan within the limits of a case can beat, given the outcome of one that keeps them."""


PLANNERS: dict[str, Planner] = {
    "exact": Planner(solve=plan_exact, plans=exact_plans, bound=lower_bound),
    "greedy": Planner(solve=plan_greedy, plans=greedy_plans),
    "static": Planner(solve=plan_static, plans=static_plans),
    "naive-elastic": Planner(solve=plan_naive_elastic, plans=naive_elastic_plans),
}
