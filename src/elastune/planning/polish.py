"""The last step when latencies are random: small changes to a good plan, judged on all samples.

The search by means does not see everything: the mean of a minimum charge is not the charge of the mean age.
"""

from __future__ import annotations

from collections.abc import Iterator

from elastune.planning.case import Case
from elastune.planning.solution import Solution, better_of
from elastune.prediction import Plan, StagePlan

MAX_SWEEPS = 4


def polish(case: Case, solution: Solution) -> Solution:
    """Change one stage at a time as long as that helps and the limits are kept."""
    if case.evaluator.workload.cluster.fixed:
        return solution
    best = solution
    for _ in range(MAX_SWEEPS):
        start = best
        for stage in range(len(case.options)):
            for plan in _neighbours(case, best.plan, stage):
                if case.is_worth_trying(plan, best.plan):
                    best = better_of(case, best, plan) or best
        if best is start:
            break
    return best


def _neighbours(case: Case, plan: Plan, stage: int) -> Iterator[Plan]:
    """The next options of a stage, with the nodes they use or those of the stage before or after."""
    here = plan.stages[stage]
    around = [planned.nodes_held for planned in plan.stages[max(0, stage - 1) : stage + 2]]
    allocations = [option.allocation for option in case.options[stage]]
    if here.allocation not in allocations:  # a plan of another planner, with an option we would not choose
        return
    at = allocations.index(here.allocation)
    for allocation in allocations[max(0, at - 1) : at + 2]:
        for held in sorted({allocation.nodes, *around}):
            changed = (allocation, held) != (here.allocation, here.nodes_held)
            if changed and allocation.nodes <= held <= case.max_nodes:
                step = StagePlan(allocation=allocation, nodes_held=held)
                yield Plan((*plan.stages[:stage], step, *plan.stages[stage + 1 :]))
