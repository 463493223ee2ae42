"""RubberBand's planners to the letter: `static-letter` (section 3.2) and `greedy-letter` (Algorithm 2).

Both divide the slots of a stage fairly: they are a factor or a multiple of the trials.

"The step size is set to be the smallest integer value such that the new stage allocation is either a factor
or multiple of the number of trials": every step goes to the next smaller fair number of *slots*. On nodes of
several slots such a step often frees no node; billed per instance it then saves nothing, and the search ends.
Elastune's own `greedy` steps to the next division on fewer *nodes* instead. The warm starts, too, are divided
fairly: 1, 2 and 3 times the best static size. The stage with the best marginal benefit (Eq. 1) shrinks, and
the answer is never worse than the fair static cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from elastune.planning.planners.baselines import WARM_STARTS, marginal_benefit
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.plan import Allocation, Plan, StagePlan, fair_allocations
from elastune.planning.problem import Case, Solution

FairTimes = tuple[Mapping[Allocation, float], ...]
"""For each stage the fair allocations, and how long the stage takes with them."""


def plan_greedy_to_the_letter(case: Case) -> Solution | None:
    """The cheapest of the plans that the descents from the warm starts end in, or fair static."""
    times = fair_times(case)
    static = _cheapest(case, _static_plans(case, times))
    if static is None:
        return None
    sizes = {min(n * static.plan.peak_nodes, case.max_nodes) for n in WARM_STARTS}
    ends = [static.plan, *(_descend(case, times, nodes) for nodes in sorted(sizes))]
    return _cheapest(case, ends)


def plan_static_to_the_letter(case: Case) -> Solution | None:
    """The cheapest cluster of fixed size, fairly divided in every stage."""
    return _cheapest(case, _static_plans(case, fair_times(case)))


def _static_plans(case: Case, times: FairTimes) -> list[Plan]:
    plans = (fair_static_plan(times, nodes) for nodes in range(1, case.max_nodes + 1))
    return [plan for plan in plans if plan is not None]


def fair_static_plan(times: FairTimes, nodes: int) -> Plan | None:
    """The same nodes in every stage, each with the fastest fair division of them."""
    stages = []
    for of_stage in times:
        fitting = [use for use in of_stage if use.nodes <= nodes]
        if not fitting:
            return None
        stages.append(StagePlan(allocation=min(fitting, key=of_stage.__getitem__), nodes_held=nodes))
    return Plan(tuple(stages))


def fair_times(case: Case) -> FairTimes:
    workload = case.evaluator.workload
    uses = [
        fair_allocations(
            stage.trials,
            gang_sizes=case.gang_sizes,
            slots_per_node=workload.cluster.slots_per_node,
            max_nodes=case.max_nodes,
        )
        for stage in workload.stages
    ]
    times: list[dict[Allocation, float]] = [{} for _ in uses]
    # The nodes held are the same throughout, so a stage takes as long whatever the others use.
    for turn in range(max(len(each) for each in uses)):
        picked = [each[min(turn, len(each) - 1)] for each in uses]
        plan = Plan(tuple(StagePlan(allocation=use, nodes_held=case.max_nodes) for use in picked))
        for of_stage, use, seconds in zip(
            times, picked, case.preview.evaluate(plan).stage_mean_s, strict=True
        ):
            of_stage[use] = seconds
    return tuple(times)


def _cheapest(case: Case, plans: list[Plan]) -> Solution | None:
    """Of those that keep the limits on all samples."""
    ranked = sorted(plans, key=lambda plan: case.value(case.preview.evaluate(plan)))
    solutions = (_evaluate(case.evaluator, plan) for plan in ranked)
    return next((each for each in solutions if case.limits.keep(each.outcome)), None)


def _descend(case: Case, times: FairTimes, nodes: int) -> Plan:
    start = fair_static_plan(times, nodes)
    assert start is not None, "the warm starts are at least as large as the best static cluster"
    best = _evaluate(case.preview, start)
    while candidates := [_evaluate(case.preview, plan) for plan in _one_step_down(times, best.plan)]:
        current = best
        chosen = max(candidates, key=lambda candidate: marginal_benefit(current, candidate))
        saves = chosen.outcome.mean_cost_usd < best.outcome.mean_cost_usd
        if not saves or not case.limits.keep_deadline(chosen.outcome):
            break
        best = chosen
    return best.plan


def _evaluate(evaluator: Evaluator, plan: Plan) -> Solution:
    return Solution(plan=plan, outcome=evaluator.evaluate(plan))


def _one_step_down(times: FairTimes, plan: Plan) -> list[Plan]:
    """For each stage the plan with the next smaller fair number of slots there, on the nodes it needs."""
    plans = []
    for i, (of_stage, planned) in enumerate(zip(times, plan.stages, strict=True)):
        smaller = [allocation for allocation in of_stage if allocation.slots < planned.allocation.slots]
        if smaller:
            allocation = max(smaller, key=lambda a: a.slots)
            step = StagePlan(allocation=allocation, nodes_held=allocation.nodes)
            plans.append(replace(plan, stages=(*plan.stages[:i], step, *plan.stages[i + 1 :])))
    return plans
