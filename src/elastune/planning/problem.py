"""The problem of a planner: work, measurements, machines and limits as plain values; and its solution.

A `Case` is one sequence of stages with its useful allocations and the evaluators of its plans.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypedDict

import numpy as np

from elastune.errors import InvariantError
from elastune.hopping.partitions import Hopping
from elastune.model.cluster import ClusterTerms
from elastune.model.continuing import Continuing
from elastune.model.limits import ROUNDING, GangLimits, Limits, Objective, Outcome
from elastune.model.profile import Profile, TrialSpeed
from elastune.model.stages import Spec, Stage
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.plan import Plan, Workload
from elastune.planning.prediction.random_numbers import AffordableRows
from elastune.planning.stage_options import StageOption, StageRuns, stage_options


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
    slots_now: int = 0
    """Of the gangs that all trials with work left have; 0: some have none, or they differ."""
    speeds: tuple[TrialSpeed, ...] = ()
    """Of the trials of the stage, in the same order; empty: nothing is known of them."""


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
    continuing: Continuing = Continuing.CHECKPOINT
    worst_case: bool = True  # limits hold even if the slower trials survive; False: as in the paper

    @property
    def is_deterministic(self) -> bool:
        return all(workload.is_deterministic for workload in self.workloads())

    def workloads(self) -> tuple[Workload, ...]:
        starts = self.starts or (StartState(),) * len(self.specs)
        return tuple(
            Workload(
                stages=_stages_left(spec, start),
                profile=self.profile,
                cluster=self.cluster,
                node_ages_s=start.node_ages_s,
                resumes=start.stage > 0 or bool(start.work_left),
                slots_now=start.slots_now,
                speeds=start.speeds,
                worst_case=self.worst_case,
                hopping=self.hopping,
                continuing=self.continuing,
                goals=tuple(itertools.accumulate(each.iterations for each in spec.stages))[start.stage :],
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


# The samples of a preview, by the trials of its largest stage.
_PREVIEWED = AffordableRows(values=250_000, least=16, most=512)
PREVIEW_MARGIN = 0.003
_NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """The input of every planner. `options[i]` are the useful ways to run stage i."""

    evaluator: Evaluator
    preview: Evaluator  # the same on a few samples, to drop hopeless plans cheaply
    options: tuple[tuple[StageOption, ...], ...]
    all_at_once: tuple[tuple[StageOption, ...], ...]
    """By stage: where gangs may be kept from stage to stage, all trials at once with every gang size."""
    gang_sizes: range  # only 1, a worker, if models hop
    max_nodes: int
    limits: Limits = _NO_LIMITS
    objective: Objective = Objective.COST
    bounded: bool = True  # a solution brings a lower bound; False: only the plan is wanted, which is quicker

    def within(self, max_nodes: int) -> Case:
        """The same on a smaller share of the cluster."""
        options, at_once = (
            tuple(tuple(o for o in stage if o.allocation.nodes <= max_nodes) for stage in stages)
            for stages in (self.options, self.all_at_once)
        )
        return replace(self, options=options, all_at_once=at_once, max_nodes=max_nodes)

    def option(self, stage: int, index: int) -> StageOption:
        """The useful options of a stage come first, then those in which all trials run at once."""
        useful = self.options[stage]
        return useful[index] if index < len(useful) else self.all_at_once[stage][index - len(useful)]

    def fairly(self) -> Case:
        """The same with the divisions of the paper's planner alone."""
        return replace(self, **_options(self.evaluator, self.gang_sizes, fair=True)).within(self.max_nodes)

    def is_worth_trying(self, plan: Plan, best: Plan | None) -> bool:
        """Whether on a few samples a plan may keep the limits and beat the best so far."""
        # Both plans use the same draws, so a difference of a few per mille shows on few samples, too.
        outcome = self.preview.evaluate(plan)
        if best is not None:
            rival = self.value(self.preview.evaluate_once(best))[0]
            if self.value(outcome)[0] > rival * (1 + PREVIEW_MARGIN):
                return False
        return not self._breaks_beyond_doubt(outcome)

    def _breaks_beyond_doubt(self, outcome: Outcome) -> bool:
        """Fewer samples keep a limit than chance explains, by five standard deviations."""
        limits, confidence, outcome = self.limits, self.limits.confidence, outcome.limited
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
    few = min(_PREVIEWED.of(max(stage.trials for stage in workload.stages)), samples)
    evaluator = Evaluator(workload, Draws(workload, samples=samples, seed=seed, stream=stream))
    sizes = range(1, 2) if workload.hopping else _gang_sizes(workload, gangs)
    return Case(
        evaluator=evaluator,
        preview=evaluator.head(few),
        gang_sizes=sizes,
        max_nodes=workload.cluster.max_nodes,
        **_options(evaluator, sizes),
    )


class _CaseOptions(TypedDict):
    options: tuple[tuple[StageOption, ...], ...]
    all_at_once: tuple[tuple[StageOption, ...], ...]


def _options(evaluator: Evaluator, sizes: range, *, fair: bool = False) -> _CaseOptions:
    stages = range(len(evaluator.workload.stages))
    found = [stage_options(StageRuns(evaluator, stage), sizes, fair=fair) for stage in stages]
    return {
        "options": tuple(each.useful for each in found),
        "all_at_once": tuple(each.all_at_once for each in found),
    }


def _gang_sizes(workload: Workload, gangs: GangLimits) -> range:
    """Gangs beyond the last measured point are no faster, so they are left out, unless they exist already."""
    largest = max(workload.profile.speedup.largest, gangs.min_slots, workload.slots_now)
    if gangs.max_slots is not None:
        largest = min(largest, gangs.max_slots)
    return range(gangs.min_slots, largest + 1)


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
