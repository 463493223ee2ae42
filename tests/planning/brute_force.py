"""The oracle: every plan with every number of nodes held, evaluated one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from elastune.model.limits import GangLimits, Limits, Objective, Outcome
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.plan import Plan, StagePlan, Workload
from elastune.planning.problem import Case, build_case
from tests.planning.hopping_workloads import workers_on_all_nodes
from tests.workloads import allocations_of

MOST_PLANS = 4_000


@dataclass(frozen=True)
class Tried:
    plan: Plan
    outcome: Outcome

    @property
    def jct_s(self) -> float:
        return self.outcome.mean_jct_s

    @property
    def cost_usd(self) -> float:
        return self.outcome.mean_cost_usd


def choices(evaluator: Evaluator, stage: int) -> list[StagePlan]:
    """Any number of gangs of any size on any number of nodes held.

    Of divisions that no plan can tell apart one is tried: the same nodes, times, cost and gangs to keep.
    """
    workload = evaluator.workload
    uses = allocations_of(workload, stage) if workload.hopping is None else workers_on_all_nodes(workload)
    different = {}
    for use in uses:
        at_once = use.gangs == workload.stages[stage].trials
        times = evaluator.makespan_s(stage, use).tobytes(), evaluator.busy_slot_s(stage, use).tobytes()
        different[use.nodes, at_once and use.slots_per_trial, *times] = use
    most = workload.cluster.max_nodes
    return [
        StagePlan(allocation=use, nodes_held=held)
        for use in different.values()
        for held in range(most if workload.cluster.fixed else use.nodes, most + 1)
    ]


def number_of_plans(workload: Workload) -> int:
    evaluator = make_case(workload, samples=2).evaluator
    return math.prod(len(choices(evaluator, stage)) for stage in range(len(workload.stages)))


def try_all(evaluator: Evaluator) -> list[Tried]:
    return list(try_each(evaluator))


def try_each(evaluator: Evaluator) -> Iterator[Tried]:
    """One after the other: 4,096 samples of a hundred thousand plans do not fit into memory."""
    per_stage = [choices(evaluator, stage) for stage in range(len(evaluator.workload.stages))]
    for stages in itertools.product(*per_stage):
        yield Tried(Plan(stages), evaluator.evaluate(Plan(stages)))


def make_case(
    workload: Workload,
    *,
    objective: Objective = Objective.COST,
    deadline_s: float | None = None,
    budget_usd: float | None = None,
    confidence: float = 0.95,
    samples: int = 1024,
) -> Case:
    case = build_case(workload, GangLimits(max_slots=4), samples=samples, seed=1)
    limits = Limits(deadline_s=deadline_s, budget_usd=budget_usd, confidence=confidence)
    return replace(case, limits=limits, objective=objective)


def frontier_of(tried: list[Tried]) -> list[tuple[float, float]]:
    """Undominated (time, cost), fastest first; differences in the last bits do not count."""
    points: list[tuple[float, float]] = []
    for one in sorted(tried, key=lambda t: (t.jct_s, t.cost_usd)):
        if not points or one.cost_usd < points[-1][1] - 1e-9:
            points.append((one.jct_s, one.cost_usd))
    return points
