"""`naive-elastic`: the cluster follows the trials, a trial keeps its size (RubberBand section 6.3.1).

Where models hop a trial has no size of its own, but its part of the workers: that is what it keeps.
"""

from __future__ import annotations

from elastune.planning.case import Case
from elastune.planning.solution import PlanSet, Solution, best_of
from elastune.prediction import Plan, StagePlan, allocate, hopping_allocations
from elastune.spec import Hopping


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
    """One plan for each number of nodes of the largest stage; the others have nodes like their trials."""
    workload = case.evaluator.workload
    uses = hopping_allocations(
        hopping, slots_per_node=workload.cluster.slots_per_node, max_nodes=case.max_nodes
    )
    most_trials = max(stage.trials for stage in workload.stages)
    plans = []
    for largest in uses:
        planned = []
        for stage in workload.stages:
            nodes = -(-largest.nodes * stage.trials // most_trials)
            held = case.max_nodes if workload.cluster.fixed else nodes
            planned.append(StagePlan(allocation=uses[nodes - 1], nodes_held=held))
        plans.append(Plan(tuple(planned)))
    return PlanSet(tuple(plans))
