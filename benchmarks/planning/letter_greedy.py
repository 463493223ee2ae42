"""RubberBand's Algorithm 2 with its step read to the letter (section 4.3).

"The step size is set to be the smallest integer value such that the new stage allocation is either a factor
or multiple of the number of trials": every step goes to the next smaller fair number of *slots*. On nodes of
several slots such a step often frees no node; billed per instance it then saves nothing, and the search ends.
Elastune's own `greedy` steps to the next allocation on fewer *nodes* instead. All else is the same: warm
starts at 1, 2 and 3 times the best static size, the stage with the best marginal benefit (Eq. 1) shrinks,
and the answer is never worse than static.
"""

from __future__ import annotations

from dataclasses import replace

from elastune.planning.planners.baselines import WARM_STARTS, marginal_benefit, plan_static, static_plan
from elastune.planning.prediction.plan import Plan, StagePlan, fair_allocations
from elastune.planning.problem import Case, Solution


def plan_greedy_to_the_letter(case: Case) -> Solution | None:
    """The cheapest of the plans that the descents from the warm starts end in, or static."""
    static = plan_static(case)
    if static is None:
        return None
    sizes = {min(n * static.plan.peak_nodes, case.max_nodes) for n in WARM_STARTS}
    found = [static, *(end for nodes in sorted(sizes) if (end := _descend(case, nodes)) is not None)]
    return min(found, key=lambda solution: case.value(solution.outcome))


def _descend(case: Case, nodes: int) -> Solution | None:
    start = static_plan(case, nodes)
    if start is None:
        return None
    best = _evaluate(case, start)
    while candidates := [_evaluate(case, plan) for plan in _one_step_down(case, best.plan)]:
        current = best
        chosen = max(candidates, key=lambda candidate: marginal_benefit(current, candidate))
        saves = chosen.outcome.mean_cost_usd < best.outcome.mean_cost_usd
        if not saves or not case.limits.keep_deadline(chosen.outcome):
            break
        best = chosen
    return best if case.limits.keep(best.outcome) else None


def _evaluate(case: Case, plan: Plan) -> Solution:
    return Solution(plan=plan, outcome=case.evaluator.evaluate(plan))


def _one_step_down(case: Case, plan: Plan) -> list[Plan]:
    """For each stage the plan with the next smaller fair number of slots there, on the nodes it needs."""
    workload = case.evaluator.workload
    plans = []
    for i, (stage, planned) in enumerate(zip(workload.stages, plan.stages, strict=True)):
        fair = fair_allocations(
            stage.trials,
            gang_sizes=case.gang_sizes,
            slots_per_node=workload.cluster.slots_per_node,
            max_nodes=case.max_nodes,
        )
        smaller = [allocation for allocation in fair if allocation.slots < planned.allocation.slots]
        if smaller:
            allocation = max(smaller, key=lambda a: a.slots)
            step = StagePlan(allocation=allocation, nodes_held=allocation.nodes)
            plans.append(replace(plan, stages=(*plan.stages[:i], step, *plan.stages[i + 1 :])))
    return plans
