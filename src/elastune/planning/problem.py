"""The problem of a planner: work, measurements, machines and limits as plain values; and its solution.

A `Case` is one sequence of stages with its useful allocations and the evaluators of its plans.
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
    """The state of a spec in the middle of a run; the default is a new job.

    `work_left` are the iterations that each living trial still owes in the stage, in the order in which
    they will train, without the trials that wait at the barrier. Empty: the stage has not begun.
    `node_ages_s` counts from the start of a node's INIT.
    """

    stage: int = 0
    work_left: tuple[int, ...] = ()
    node_ages_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A job for the planners. Several specs run side by side, each on nodes of its own (Hyperband).

    To plan again in the middle of a run, set the start state of each spec and, as limits, the time and the
    money left. What the nodes have cost so far, by their age, is spent. `hopping`: trials have no gangs; of
    `gangs` only the most slots count, for trials that train together on all workers.
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
        raise InvariantError(f"no trial has work left in stage {start.stage}; start at the next stage")
    return (Stage(trials=len(owed), iterations=max(owed), remaining=owed), *stages[1:])


# A preview has as many samples as its largest stage leaves affordable.
PREVIEW_VALUES = 2_000_000
PREVIEW_SAMPLES = range(64, 513)
PREVIEW_MARGIN = 0.003
_NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageOption:
    """One way to run a stage, and what it takes: barrier included, provisioning not.

    If gangs take turns the samples are the few of the preview: simulating a queue is expensive and these
    numbers only guide the search; the promise is always evaluated on all samples.
    """

    allocation: Allocation
    seconds: Array
    function_usd: Array  # the cost of the stage billed by function; 0 billed by instance

    @property
    def mean_s(self) -> float:
        return float(self.seconds.mean())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """The input of every planner. `options[i]` are the useful allocations of stage i."""

    evaluator: Evaluator
    preview: Evaluator  # the same on a few samples, to drop hopeless plans cheaply
    options: tuple[tuple[StageOption, ...], ...]
    gang_sizes: range  # only 1, a worker, if models hop
    max_nodes: int
    limits: Limits = _NO_LIMITS
    objective: Objective = Objective.COST

    def within(self, max_nodes: int) -> Case:
        """The same on a smaller share of the cluster."""
        options = tuple(tuple(o for o in stage if o.allocation.nodes <= max_nodes) for stage in self.options)
        return replace(self, options=options, max_nodes=max_nodes)

    def is_worth_trying(self, plan: Plan, best: Plan | None) -> bool:
        """Whether on a few samples a plan may keep the limits and beat the best so far."""
        # Both plans use the same draws, so a difference of a few per mille shows on few samples, too.
        outcome = self.preview.evaluate(plan)
        if best is not None:
            rival = self.value(self.preview.evaluate(best))[0]
            if self.value(outcome)[0] > rival * (1 + PREVIEW_MARGIN):
                return False
        return not self._breaks_beyond_doubt(outcome)

    def _breaks_beyond_doubt(self, outcome: Outcome) -> bool:
        """Fewer samples keep a limit than chance explains, by five standard deviations."""
        limits, confidence = self.limits, self.limits.confidence
        least = confidence - 5 * math.sqrt(confidence * (1 - confidence) / outcome.jct_s.size)
        limited = ((outcome.jct_s, limits.deadline_s), (outcome.cost_usd, limits.budget_usd))
        return any(
            limit is not None and float(np.mean(samples <= limit * (1 + ROUNDING))) < least
            for samples, limit in limited
        )

    def value(self, outcome: Outcome) -> tuple[float, float]:
        """The mean that the objective minimises; the other mean breaks ties."""
        mean = (outcome.mean_cost_usd, outcome.mean_jct_s)
        return mean if self.objective is Objective.COST else mean[::-1]


def build_case(workload: Workload, gangs: GangLimits, *, samples: int, seed: int, stream: int = 0) -> Case:
    """The case of a workload. A stage has no options if not even one gang fits the cluster."""
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
    """Gangs beyond the last measured point are no faster, so they are left out."""
    largest = max(speedup.largest, gangs.min_slots)
    if gangs.max_slots is not None:
        largest = min(largest, gangs.max_slots)
    return range(gangs.min_slots, largest + 1)


def _stage_options(
    evaluator: Evaluator, preview: Evaluator, stage: int, sizes: range
) -> tuple[StageOption, ...]:
    workload = evaluator.workload
    options = []
    for use in _allocations(workload, stage, sizes):
        takes_turns = workload.hopping is None and use.gangs < workload.stages[stage].trials
        judge = preview if takes_turns else evaluator
        usd = np.zeros(1)
        if not bills_nodes(workload.cluster):
            usd = slot_rate(workload.cluster) * evaluator.busy_slot_s(stage, use)
        seconds = judge.makespan_s(stage, use) + judge.draws.sync_s(stage)
        options.append(StageOption(allocation=use, seconds=seconds, function_usd=usd))
    return _undominated(options)


def _allocations(workload: Workload, stage: int, sizes: range) -> tuple[Allocation, ...]:
    per_node, most = workload.cluster.slots_per_node, workload.cluster.max_nodes
    if workload.hopping is not None:
        return hopping_allocations(workload.hopping, slots_per_node=per_node, max_nodes=most)
    trials = workload.stages[stage].trials
    return fair_allocations(trials, gang_sizes=sizes, slots_per_node=per_node, max_nodes=most)


def _undominated(options: list[StageOption]) -> tuple[StageOption, ...]:
    """Drop options that another one equals with no more nodes, time and, billed by function, money."""
    # By instance a stage costs nodes held x time, so slots that save neither time nor nodes are useless.
    kept: list[StageOption] = []
    rows = [(o.allocation.nodes, o.mean_s, float(o.function_usd.mean()), o) for o in options]
    for _, seconds, usd, option in sorted(rows, key=lambda row: row[:3]):
        if not any(other.mean_s <= seconds and other.function_usd.mean() <= usd for other in kept):
            kept.append(option)
    return tuple(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A plan that keeps the limits, and what is proven about it."""

    plan: Plan
    outcome: Outcome
    optimal: bool = False
    lower_bound: float | None = None  # on the mean of the objective, in dollars or seconds; None: unknown


@dataclass(frozen=True, slots=True)
class PlanSet:
    """The plans with which a planner trades time against money, without limits."""

    plans: tuple[Plan, ...]
    complete: bool = False  # no plan outside is both as fast and as cheap, in the mean, as one inside


def best_of(case: Case, plans: Iterable[Plan]) -> Solution | None:
    """The best candidate that keeps the limits: selected on a few samples, judged on all."""
    best: Solution | None = None
    for plan in sorted(plans, key=lambda plan: case.value(case.preview.evaluate(plan))):
        if case.is_worth_trying(plan, None if best is None else best.plan):
            best = better_of(case, best, plan)
    return best


def better_of(case: Case, best: Solution | None, plan: Plan) -> Solution | None:
    """The plan, if on all samples it keeps the limits and beats the best so far; else the best so far."""
    outcome = case.evaluator.evaluate(plan)
    better = best is None or case.value(outcome) < case.value(best.outcome)
    return Solution(plan=plan, outcome=outcome) if better and case.limits.keep(outcome) else best
