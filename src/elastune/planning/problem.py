"""What a planner is asked: the work, the measurements, the machines and the limits, as plain values.

One sequence of stages to plan for: its useful allocations, its limits, and how plans are judged.

What a planner answers, and how it finds the best of its candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from elastune.errors import InvariantError
from elastune.hopping.partitions import Hopping
from elastune.model.billing import bills_nodes, slot_rate
from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Array
from elastune.model.limits import ROUNDING, GangLimits, Limits, Objective, Outcome
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Spec, Stage
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.plan import (
    Allocation,
    Plan,
    Workload,
    fair_allocations,
    hopping_allocations,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartState:
    """Where a spec stands in the middle of a run. A fresh job is the empty one.

    `work_left` are the iterations that each living trial still owes in the stage, in the order in which
    they will train; trials that owe nothing wait at the barrier and are left out. Empty: the stage has not
    begun. `node_ages_s` counts from the start of a node's INIT.
    """

    stage: int = 0
    work_left: tuple[int, ...] = ()
    node_ages_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A job as the planners see it. Several specs run side by side, each on nodes of its own (Hyperband).

    To plan again in the middle of a run, give the start state of each spec and, as limits, the time and the
    money that are left. What the nodes have cost so far, by their age, is spent money.

    `hopping`: the models travel and the data stay. Then trials have no gangs; of `gangs` only the most slots
    count, for trials that train together on all workers.
    """

    specs: tuple[Spec, ...]
    profile: Profile
    cluster: ClusterTerms
    limits: Limits = field(default_factory=Limits)
    gangs: GangLimits = field(default_factory=GangLimits)
    starts: tuple[StartState, ...] = ()
    hopping: Hopping | None = None

    @property
    def is_deterministic(self) -> bool:
        return self.profile.is_deterministic and self.cluster.is_deterministic

    def workloads(self) -> tuple[Workload, ...]:
        """What is left to do, spec by spec."""
        starts = self.starts or (StartState(),) * len(self.specs)
        return tuple(
            Workload(
                stages=_stages_left(spec, start),
                profile=self.profile,
                cluster=self.cluster,
                node_ages_s=start.node_ages_s,
                resumes=start.stage > 0 or bool(start.work_left),
                hopping=self.hopping,
                most_slots=None if self.hopping is None else self.gangs.max_slots,
            )
            for spec, start in zip(self.specs, starts, strict=True)
        )


def _stages_left(spec: Spec, start: StartState) -> tuple[Stage, ...]:
    stages = spec.stages[start.stage :]
    if not stages:
        raise InvariantError(f"spec {spec.name!r} has no stage {start.stage}")
    if not start.work_left:
        return stages
    owed = tuple(work for work in start.work_left if work > 0)
    if not owed:
        raise InvariantError(f"no trial of stage {start.stage} owes work: start at the next stage")
    current = Stage(trials=len(owed), iterations=max(owed), remaining=owed)
    return (current, *stages[1:])


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
        limited = ((outcome.jct_s, self.limits.deadline_s), (outcome.cost_usd, self.limits.budget_usd))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A plan that keeps the limits, and what is known about how good it is.

    `lower_bound` is on the mean of what the objective makes small (dollars or seconds); None: nothing known.
    """

    plan: Plan
    outcome: Outcome
    optimal: bool = False
    lower_bound: float | None = None


@dataclass(frozen=True, slots=True)
class PlanSet:
    """The plans among which a planner trades time against money, limits aside."""

    plans: tuple[Plan, ...]
    complete: bool = False
    """No plan outside is both as fast and as cheap, in the mean, as one inside."""


def best_of(case: Case, plans: Iterable[Plan]) -> Solution | None:
    """The best of the candidates that keep the limits: looked through on a few samples, judged on all."""
    best: Solution | None = None
    for plan in sorted(plans, key=lambda plan: case.value(case.preview.evaluate(plan))):
        if case.is_worth_trying(plan, None if best is None else best.plan):
            best = better_of(case, best, plan)
    return best


def better_of(case: Case, best: Solution | None, plan: Plan) -> Solution | None:
    """The plan, if on all samples it keeps the limits and is better than the best so far; else that."""
    outcome = case.evaluator.evaluate(plan)
    better = best is None or case.value(outcome) < case.value(best.outcome)
    return Solution(plan=plan, outcome=outcome) if better and case.limits.keep(outcome) else best
