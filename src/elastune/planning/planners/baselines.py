"""The planners of the RubberBand paper `naive-elastic` and `greedy`; `static` is in `static.py`.

`naive-elastic`: the cluster follows the trials, a
trial keeps its size or, if models hop, its share of the workers (section 6.3.1). `greedy` (section 4.3,
Algorithm 2): starting from 1, 2 and 3 times the best static size, again and again give one stage the next
smaller allocation, the one that saves most money per second lost (Eq. 1; the sentence below it swaps C and
T), until nothing is saved or a limit breaks. Never worse than static.

Deviations of `greedy`: a step goes to the next allocation that uses fewer nodes (by function: fewer slots),
because a step that frees no node saves nothing and would end the search; a stage that shrinks releases the
nodes it no longer uses. The paper plans for a deadline only: for a budget (ours) the steps start from the
largest cluster and its halves and go on until the budget is kept.
"""

from __future__ import annotations

import math
from dataclasses import replace

from elastune.hopping.partitions import Hopping
from elastune.model.billing import bills_nodes
from elastune.model.limits import Limits, Objective
from elastune.planning.planners.static import best_static, static_plan, static_plans
from elastune.planning.prediction.plan import Plan, StagePlan, allocate, hopping_allocations
from elastune.planning.problem import Case, PlanSet, Solution, best_of


def plan_naive_elastic(case: Case) -> Solution | None:
    """The best gang size, the same in every stage, all trials of a stage at once."""
    return best_of(case, naive_elastic_plans(case).plans)


def naive_elastic_plans(case: Case) -> PlanSet:
    """One plan for each gang size with which the largest stage fits the cluster."""
    hopping = case.evaluator.workload.hopping
    if hopping is not None:
        return _hopping_plans(case, hopping)
    plans = (_plan(case, size) for size in case.gang_sizes)
    return PlanSet(tuple(plan for plan in plans if plan is not None))


def _plan(case: Case, gang_size: int) -> Plan | None:
    workload = case.evaluator.workload
    per_node = workload.cluster.slots_per_node
    stages = []
    for stage in workload.stages:
        use = allocate(gangs=stage.trials, slots_per_trial=gang_size, slots_per_node=per_node)
        if use.nodes > case.max_nodes:
            return None
        held = case.max_nodes if workload.cluster.fixed else use.nodes
        stages.append(StagePlan(allocation=use, nodes_held=held))
    return Plan(tuple(stages))


def _hopping_plans(case: Case, hopping: Hopping) -> PlanSet:
    """One plan for each number of nodes of the largest stage; the others have nodes in proportion."""
    workload = case.evaluator.workload
    per_node = workload.cluster.slots_per_node
    fixed = workload.cluster.fixed
    uses = hopping_allocations(hopping, slots_per_node=per_node, max_nodes=case.max_nodes, fixed=fixed)
    most_trials = max(stage.trials for stage in workload.stages)
    plans = []
    for largest in uses:
        planned = []
        for stage in workload.stages:
            nodes = -(-largest.nodes * stage.trials // most_trials)
            use = next(each for each in uses if each.nodes >= nodes)
            held = case.max_nodes if fixed else use.nodes
            planned.append(StagePlan(allocation=use, nodes_held=held))
        plans.append(Plan(tuple(planned)))
    return PlanSet(tuple(plans))


WARM_STARTS = (1, 2, 3)


def plan_greedy(case: Case) -> Solution | None:
    """The best plan on the way down from the warm starts; never worse than static."""
    static = best_static(case)
    sizes = _sizes(case)
    if case.objective is Objective.COST:
        # The start may break the budget: the plan may get cheap enough on the way down.
        start = best_static(replace(case, limits=replace(case.limits, budget_usd=None)))
        sizes = [] if start is None else [n * start.plan.peak_nodes for n in WARM_STARTS]
    found = [] if static is None else [static]
    for nodes in sorted({min(nodes, case.max_nodes) for nodes in sizes}):
        # The way down uses only a few samples; the limits are checked on all of them.
        for step in reversed(_descend(case, nodes)):
            outcome = case.evaluator.evaluate(step.plan)
            if case.limits.keep(outcome):
                found.append(Solution(plan=step.plan, outcome=outcome))
                break
    return min(found, key=lambda solution: case.value(solution.outcome), default=None)


def greedy_plans(case: Case) -> PlanSet:
    """Every plan on the ways down from the largest cluster and its halves, which end when cost grows."""
    free = replace(case, limits=Limits(), objective=Objective.COST)
    descents = tuple(step.plan for nodes in _sizes(case) for step in _descend(free, nodes))
    return PlanSet(static_plans(case).plans + descents)


def _sizes(case: Case) -> list[int]:
    """The largest cluster and its halves; a fixed cluster has one size."""
    nodes = case.max_nodes
    halvings = 1 if case.evaluator.workload.cluster.fixed else nodes.bit_length()
    return [nodes >> halved for halved in range(halvings)]


def _descend(case: Case, nodes: int) -> list[Solution]:
    """Plans from static down, each the best step from the one before, judged on the preview's samples."""
    start = static_plan(case, nodes)
    if start is None:
        return []
    path = [Solution(plan=start, outcome=case.preview.evaluate(start))]
    while not (case.objective is Objective.TIME and case.limits.keep_budget(path[-1].outcome)):
        smaller = _smaller(case, path[-1].plan)
        candidates = [Solution(plan=plan, outcome=case.preview.evaluate(plan)) for plan in smaller]
        best = max(candidates, key=lambda c: marginal_benefit(path[-1], c), default=None)
        if (
            best is None
            or best.outcome.mean_cost_usd >= path[-1].outcome.mean_cost_usd
            or not case.limits.keep_deadline(best.outcome)
        ):
            break
        path.append(best)
    return path


def _smaller(case: Case, plan: Plan) -> list[Plan]:
    """For each stage, the plan with the next smaller option in that stage only."""
    cluster = case.evaluator.workload.cluster
    by_function = not bills_nodes(cluster)
    if cluster.fixed:
        return []

    def size(nodes: int, slots: int) -> tuple[int, int]:
        return (slots, nodes) if by_function else (nodes, slots)

    plans = []
    for i, (stage, options) in enumerate(zip(plan.stages, case.options, strict=True)):
        sizes = {size(o.allocation.nodes, o.allocation.slots): o.allocation for o in options}
        used = stage.allocation.nodes if by_function else stage.nodes_held
        smaller = [key for key in sizes if key < size(used, stage.allocation.slots)]
        if smaller:
            allocation = sizes[max(smaller)]
            held = max(stage.nodes_held, allocation.nodes) if by_function else allocation.nodes
            step = StagePlan(allocation=allocation, nodes_held=held)
            plans.append(replace(plan, stages=(*plan.stages[:i], step, *plan.stages[i + 1 :])))
    return plans


def marginal_benefit(current: Solution, candidate: Solution) -> float:
    """Dollars saved per second lost: infinite if both are saved, minus infinity if no money is."""
    saved = current.outcome.mean_cost_usd - candidate.outcome.mean_cost_usd
    lost = candidate.outcome.mean_jct_s - current.outcome.mean_jct_s
    if saved <= 0:
        return -math.inf
    return saved / lost if lost > 0 else math.inf
