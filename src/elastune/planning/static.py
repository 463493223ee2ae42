"""`static`: the cheapest cluster of fixed size (RubberBand section 3.2), the baseline of the paper."""

from __future__ import annotations

from elastune.planning.case import Case
from elastune.planning.solution import PlanSet, Solution, best_of
from elastune.prediction import Plan, StagePlan


def plan_static(case: Case) -> Solution | None:
    """Every stage uses the fastest fair division of the same nodes."""
    return best_of(case, static_plans(case).plans)


def static_plans(case: Case) -> PlanSet:
    """One plan for each size that some stage can use; sizes between those only cost more."""
    sizes = {option.allocation.nodes for options in case.options for option in options}
    if case.evaluator.workload.cluster.fixed:
        sizes = {case.max_nodes}
    plans = (static_plan(case, nodes) for nodes in sorted(sizes))
    return PlanSet(tuple(plan for plan in plans if plan is not None))


def static_plan(case: Case, nodes: int) -> Plan | None:
    stages = []
    for options in case.options:
        fitting = [option for option in options if option.allocation.nodes <= nodes]
        if not fitting:
            return None
        fastest = min(fitting, key=lambda option: option.mean_s)
        stages.append(StagePlan(allocation=fastest.allocation, nodes_held=nodes))
    return Plan(tuple(stages))
