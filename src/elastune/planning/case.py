"""One sequence of stages to plan for: its useful allocations, its limits, and how plans are judged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from elastune.cluster import Billing
from elastune.planning.problem import GangLimits, Limits, Objective
from elastune.prediction import Allocation, Evaluator, Outcome, fair_allocations
from elastune.profiles import Speedup
from elastune.profiles.distributions import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageOption:
    """One way to run a stage, and what it takes: barrier included, provisioning not.

    Where gangs take turns, the samples are those of the first block only: simulating a queue is dear and
    these numbers guide the search; what is promised is always evaluated on all samples.
    """

    allocation: Allocation
    seconds: Array
    function_usd: Array
    """What the stage costs when billed by function; nothing when billed by instance."""

    @property
    def mean_s(self) -> float:
        return float(self.seconds.mean())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """What every planner is given. `options[i]` are the allocations of stage i that can be worth it."""

    evaluator: Evaluator
    options: tuple[tuple[StageOption, ...], ...]
    gang_sizes: range
    max_nodes: int
    limits: Limits
    objective: Objective

    def within(self, max_nodes: int) -> Case:
        """The same on a smaller share of the cluster."""
        options = tuple(tuple(o for o in stage if o.allocation.nodes <= max_nodes) for stage in self.options)
        return replace(self, options=options, max_nodes=max_nodes)

    def value(self, outcome: Outcome) -> tuple[float, float]:
        """What the objective makes small; the other mean breaks ties."""
        mean = (outcome.mean_cost_usd, outcome.mean_jct_s)
        return mean if self.objective is Objective.COST else mean[::-1]


def build_case(evaluator: Evaluator, gangs: GangLimits, limits: Limits, objective: Objective) -> Case:
    """The case of a workload. A stage for which not even one gang fits the cluster has no options."""
    sizes = _gang_sizes(evaluator.workload.profile.speedup, gangs)
    stages = range(len(evaluator.workload.stages))
    return Case(
        evaluator=evaluator,
        options=tuple(_stage_options(evaluator, stage, sizes) for stage in stages),
        gang_sizes=sizes,
        max_nodes=evaluator.workload.cluster.max_nodes,
        limits=limits,
        objective=objective,
    )


def _gang_sizes(speedup: Speedup, gangs: GangLimits) -> range:
    """Gangs beyond the last measured point are no faster, so they are never worth it."""
    largest = max(speedup.largest, gangs.min_slots)
    if gangs.max_slots is not None:
        largest = min(largest, gangs.max_slots)
    return range(gangs.min_slots, largest + 1)


def _stage_options(evaluator: Evaluator, stage: int, sizes: range) -> tuple[StageOption, ...]:
    cluster = evaluator.workload.cluster
    allocations = fair_allocations(
        evaluator.workload.stages[stage].trials,
        gang_sizes=sizes,
        slots_per_node=cluster.slots_per_node,
        max_nodes=cluster.max_nodes,
    )
    return _undominated([_measure(evaluator, stage, a) for a in allocations])


def _measure(evaluator: Evaluator, stage: int, allocation: Allocation) -> StageOption:
    draws = evaluator.draws
    by_function = evaluator.workload.cluster.billing is Billing.FUNCTION
    usd = (
        evaluator.workload.cluster.slot_usd_per_s * evaluator.busy_slot_s(stage, allocation.slots_per_trial)
        if by_function
        else np.zeros(1)
    )
    if allocation.gangs == evaluator.workload.stages[stage].trials:
        seconds = evaluator.makespan_s(stage, allocation) + draws.sync_s(stage)
    else:
        first = draws.blocks[0]
        seconds = evaluator.block_makespan_s(stage, allocation, 0) + draws.sync_s(stage)[first]
    return StageOption(allocation=allocation, seconds=seconds, function_usd=usd)


def _undominated(options: list[StageOption]) -> tuple[StageOption, ...]:
    """Drop what another option does with no more nodes, time and, billed by function, money.

    Per instance a stage costs nodes held x time, so slots that save no time and no node are worth nothing.
    """
    kept: list[StageOption] = []
    rows = [
        (option.allocation.nodes, option.mean_s, float(option.function_usd.mean()), option)
        for option in options
    ]
    for _, seconds, usd, option in sorted(rows, key=lambda row: row[:3]):
        if not any(other.mean_s <= seconds and other.function_usd.mean() <= usd for other in kept):
            kept.append(option)
    return tuple(kept)
