"""Why no plan keeps the limits: the fastest plan, the cheapest, changes that help, and all of it in words.

Every suggested change was tried: with it, the same planner finds a plan. No planner proves that there is none
(`exact` may miss one where latencies are random), so the words are of plans found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from elastune.errors import InfeasibleError
from elastune.model.limits import Limit, Limits, Objective, describe_limits
from elastune.planning.brackets import Answer
from elastune.planning.planners.registry import DEFAULT_PLANNER
from elastune.planning.quote import Forecast, forecast
from elastune.wording import (
    format_confidence,
    plural,
    time_and_money,
    write_duration,
)

# A heuristic planner may miss the limit that its own plan keeps; then a looser one is tried.
_LOOSER = (1.0, 1.02, 1.1, 1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change of the job that makes it feasible, and the forecast. None: unchanged."""

    planner: str | None = None
    deadline_s: float | None = None
    budget_usd: float | None = None
    max_nodes: int | None = None
    forecast: Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    limits: Limits
    binding: Limit
    max_nodes: int
    fixed: bool
    hops: bool  # models hop, so there are no gangs
    fastest: Forecast | None  # None: no plan at all
    cheapest: Forecast | None
    remedies: tuple[Remedy, ...]


class NoPlanError(InfeasibleError):
    """No plan keeps the limits. `diagnosis` has the numbers of the message."""

    def __init__(self, message: str, diagnosis: Diagnosis) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The infeasible job. `solve` tries other limits, objectives and nodes (None: all that are useful)."""

    limits: Limits
    objective: Objective
    max_nodes: int
    fixed: bool
    hops: bool
    least_nodes: int  # with fewer nodes not even the smallest gangs fit
    solve: Callable[[Limits, Objective, int | None], Answer | None]
    by_exact: Callable[[], Answer | None]
    """What the default planner says within the limits, if another one was asked."""

    def here(self, limits: Limits, objective: Objective) -> Answer | None:
        return self.solve(limits, objective, self.max_nodes)


def diagnose(situation: Situation) -> Diagnosis:
    """Find the binding limit by dropping one after the other."""
    limits = situation.limits
    free = replace(limits, deadline_s=None, budget_usd=None)
    fastest = situation.here(free, Objective.TIME)
    return Diagnosis(
        limits=limits,
        binding=_binding(situation, possible=fastest is not None),
        max_nodes=situation.max_nodes,
        fixed=situation.fixed,
        hops=situation.hops,
        fastest=forecast(fastest, limits.confidence),
        cheapest=forecast(situation.here(free, Objective.COST), limits.confidence),
        remedies=tuple(_remedies(situation, fastest)),
    )


def _binding(situation: Situation, *, possible: bool) -> Limit:
    if not possible:
        return Limit.MAX_NODES
    in_time = replace(situation.limits, budget_usd=None)
    if situation.limits.deadline_s is None or situation.here(in_time, Objective.COST) is not None:
        return Limit.BUDGET
    more_nodes_help = situation.solve(in_time, Objective.COST, None) is not None
    return Limit.MAX_NODES if more_nodes_help else Limit.DEADLINE


def _remedies(situation: Situation, fastest: Answer | None) -> Iterator[Remedy]:
    limits, confidence = situation.limits, situation.limits.confidence
    if (found := forecast(situation.by_exact(), confidence)) is not None:
        yield Remedy(planner=DEFAULT_PLANNER, forecast=found)
    single: list[Remedy] = []
    if limits.deadline_s is not None:
        answer = situation.here(limits.without_deadline(), Objective.TIME)
        single += _try_limits(situation, answer, deadline=True, budget=False)
    if limits.budget_usd is not None:
        answer = situation.here(limits.without_budget(), Objective.COST)
        single += _try_limits(situation, answer, deadline=False, budget=True)
    yield from single
    if limits.deadline_s is not None and limits.budget_usd is not None and not single:
        yield from _try_limits(situation, fastest, deadline=True, budget=True)
    roomy = situation.solve(limits, situation.objective, None)
    nodes = situation.least_nodes if fastest is None else 0 if roomy is None else roomy.peak_nodes
    if nodes > situation.max_nodes:
        found = forecast(situation.solve(limits, situation.objective, nodes), confidence)
        if found is not None:
            yield Remedy(max_nodes=nodes, forecast=found)


def _try_limits(
    situation: Situation, answer: Answer | None, *, deadline: bool, budget: bool
) -> Iterator[Remedy]:
    """The limits that a plan keeps, rounded up for people, if a plan is found with them."""
    confidence = situation.limits.confidence
    kept = forecast(answer, confidence)
    if kept is None:
        return
    for factor in _LOOSER:
        seconds = float(math.ceil(kept.jct_quantile_seconds * factor)) if deadline else None
        usd = math.ceil(kept.cost_quantile * factor * 100) / 100 if budget else None
        moved = replace(
            situation.limits,
            deadline_s=seconds or situation.limits.deadline_s,
            budget_usd=usd or situation.limits.budget_usd,
        )
        found = forecast(situation.here(moved, situation.objective), confidence)
        if found is not None:
            yield Remedy(deadline_s=seconds, budget_usd=usd, forecast=found)
            return


def describe_infeasible(diagnosis: Diagnosis, planner: str) -> str:
    limits = diagnosis.limits
    asked = describe_limits(limits, article="the")
    sure = f"with {format_confidence(limits.confidence)} confidence"
    what = f"keeps {asked} {sure}" if asked else "fits the cluster"
    lines = [f"the {planner} planner finds no plan that {what}.", _describe_binding(diagnosis)]
    if diagnosis.fastest is not None:
        lines.append(f"  fastest plan:  {_promise(diagnosis.fastest, limits.confidence)}")
    if diagnosis.cheapest is not None:
        lines.append(f"  cheapest plan: {_promise(diagnosis.cheapest, limits.confidence)}")
    lines += [f"  would fit: {_offer(remedy, diagnosis)}" for remedy in diagnosis.remedies]
    return "\n".join(lines)


def _describe_binding(diagnosis: Diagnosis) -> str:
    nodes = plural(diagnosis.max_nodes, "node")
    key = "nodes" if diagnosis.fixed else "max_nodes"
    match diagnosis.binding:
        case Limit.MAX_NODES if diagnosis.fastest is None and diagnosis.hops:
            return f"{key} binds: {nodes} are too few for one node per bracket."
        case Limit.MAX_NODES if diagnosis.fastest is None:
            return f"{key} binds: {nodes} cannot hold the smallest gangs of all trials that run side by side."
        case Limit.MAX_NODES:
            return f"{key} binds: no plan found on {nodes} is that fast."
        case Limit.DEADLINE:
            return "The deadline binds: no plan found is that fast, on any number of nodes."
        case Limit.BUDGET if diagnosis.limits.deadline_s is None:
            return "The budget binds: no plan found is that cheap, however long it takes."
        case Limit.BUDGET:
            return "The budget binds: no plan found that keeps the deadline is that cheap."


def _promise(fit: Forecast, confidence: float) -> str:
    quantile = time_and_money(fit.jct_quantile_seconds, fit.cost_quantile)
    return f"{_mean(fit)}, {format_confidence(confidence)} quantile {quantile}"


def _mean(fit: Forecast) -> str:
    return f"mean {time_and_money(fit.jct_seconds, fit.cost)}"


def _offer(remedy: Remedy, diagnosis: Diagnosis) -> str:
    changes = []
    if remedy.planner is not None:
        changes.append(f"planner: {remedy.planner}")
    if remedy.deadline_s is not None:
        changes.append(f"deadline: {write_duration(remedy.deadline_s)}")
    if remedy.budget_usd is not None:
        changes.append(f"budget: ${remedy.budget_usd:.2f}")
    if remedy.max_nodes is not None:
        instead = " instead of nodes" if diagnosis.fixed else ""
        changes.append(f"max_nodes: {remedy.max_nodes}{instead}")
    return f"{' with '.join(changes)} ({_mean(remedy.forecast)})"
