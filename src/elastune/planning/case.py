"""One sequence of stages to plan for: its useful allocations, its limits, and how plans are judged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from elastune.cluster.billing import bills_nodes, slot_rate
from elastune.planning.problem import ROUNDING, GangLimits, Limits, Objective
from elastune.prediction import (
    Allocation,
    Draws,
    Evaluator,
    Outcome,
    Plan,
    Workload,
    fair_allocations,
    hopping_allocations,
)
from elastune.profiles import Speedup
from elastune.profiles.distributions import Array

# A preview has as many samples as its largest stage leaves affordable.
PREVIEW_VALUES = 2_000_000
PREVIEW_SAMPLES = range(64, 513)
PREVIEW_MARGIN = 0.003
_NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageOption:
    """One way to run a stage, and what it takes: barrier included, provisioning not.

    Where gangs take turns the samples are the few of the preview: simulating a queue is dear and these
    numbers guide the search; what is promised is always evaluated on all samples.
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
    preview: Evaluator
    """The same on a few samples, to drop hopeless plans cheaply."""
    options: tuple[tuple[StageOption, ...], ...]
    gang_sizes: range
    """Of one slot, the workers, where models hop."""
    max_nodes: int
    limits: Limits = _NO_LIMITS
    objective: Objective = Objective.COST

    def within(self, max_nodes: int) -> Case:
        """The same on a smaller share of the cluster."""
        options = tuple(tuple(o for o in stage if o.allocation.nodes <= max_nodes) for stage in self.options)
        return replace(self, options=options, max_nodes=max_nodes)

    def is_worth_trying(self, plan: Plan, best: Plan | None) -> bool:
        """Whether a few samples leave it open that a plan keeps the limits and beats the best so far.

        Both plans meet the same luck, so a difference of a few per mille shows on few samples too.
        """
        outcome = self.preview.evaluate(plan)
        if best is not None:
            rival = self.value(self.preview.evaluate(best))[0]
            if self.value(outcome)[0] > rival * (1 + PREVIEW_MARGIN):
                return False
        return not self._breaks_beyond_doubt(outcome)

    def _breaks_beyond_doubt(self, outcome: Outcome) -> bool:
        """Fewer samples keep a limit than chance explains, by five standard deviations."""
        confidence = self.limits.confidence
        least = confidence - 5 * math.sqrt(confidence * (1 - confidence) / outcome.jct_s.size)
        limited = (
            (outcome.jct_s, self.limits.deadline_s),
            (outcome.cost_usd, self.limits.budget_usd),
        )
        return any(
            limit is not None and float(np.mean(samples <= limit * (1 + ROUNDING))) < least
            for samples, limit in limited
        )

    def value(self, outcome: Outcome) -> tuple[float, float]:
        """What the objective makes small; the other mean breaks ties."""
        mean = (outcome.mean_cost_usd, outcome.mean_jct_s)
        return mean if self.objective is Objective.COST else mean[::-1]


def build_case(workload: Workload, gangs: GangLimits, *, samples: int, seed: int, stream: int = 0) -> Case:
    """The case of a workload. A stage for which not even one gang fits the cluster has no options."""
    affordable = PREVIEW_VALUES // max(stage.trials for stage in workload.stages)
    few = min(max(affordable, PREVIEW_SAMPLES[0]), PREVIEW_SAMPLES[-1], samples)
    evaluator, preview = (
        Evaluator(workload, Draws(workload, samples=count, seed=seed, stream=stream))
        for count in (samples, few)
    )
    sizes = range(1, 2) if workload.hopping else _gang_sizes(workload.profile.speedup, gangs)
    stages = range(len(workload.stages))
    return Case(
        evaluator=evaluator,
        preview=preview,
        options=tuple(_stage_options(evaluator, preview, stage, sizes) for stage in stages),
        gang_sizes=sizes,
        max_nodes=workload.cluster.max_nodes,
    )


def _gang_sizes(speedup: Speedup, gangs: GangLimits) -> range:
    """Gangs beyond the last measured point are no faster, so they are never worth it."""
    largest = max(speedup.largest, gangs.min_slots)
    if gangs.max_slots is not None:
        largest = min(largest, gangs.max_slots)
    return range(gangs.min_slots, largest + 1)


def _stage_options(
    evaluator: Evaluator, preview: Evaluator, stage: int, sizes: range
) -> tuple[StageOption, ...]:
    workload = evaluator.workload
    by_function = not bills_nodes(workload.cluster)
    options = []
    for use in _allocations(workload, stage, sizes):
        takes_turns = workload.hopping is None and use.gangs < workload.stages[stage].trials
        judge = preview if takes_turns else evaluator
        usd = np.zeros(1)
        if by_function:
            usd = slot_rate(workload.cluster) * evaluator.busy_slot_s(stage, use)
        seconds = judge.makespan_s(stage, use) + judge.draws.sync_s(stage)
        options.append(StageOption(allocation=use, seconds=seconds, function_usd=usd))
    return _undominated(options)


def _allocations(workload: Workload, stage: int, sizes: range) -> tuple[Allocation, ...]:
    cluster = workload.cluster
    if workload.hopping is not None:
        return hopping_allocations(
            workload.hopping, slots_per_node=cluster.slots_per_node, max_nodes=cluster.max_nodes
        )
    return fair_allocations(
        workload.stages[stage].trials,
        gang_sizes=sizes,
        slots_per_node=cluster.slots_per_node,
        max_nodes=cluster.max_nodes,
    )


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
