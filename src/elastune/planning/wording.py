"""Limits in words, and what is said when no plan keeps them."""

from __future__ import annotations

from elastune.planning.forecast import Forecast
from elastune.planning.infeasible import Diagnosis, Limit, Remedy
from elastune.planning.problem import Limits
from elastune.units import format_confidence, format_duration, format_usd, plural, write_duration


def tell_limits(limits: Limits, *, article: str = "a") -> str:
    """`a deadline of 20m00s and a budget of $30.00`; nothing if there is neither."""
    told = []
    if limits.deadline_s is not None:
        told.append(f"{article} deadline of {format_duration(limits.deadline_s)}")
    if limits.budget_usd is not None:
        told.append(f"{article} budget of {format_usd(limits.budget_usd)}")
    return " and ".join(told)


def tell_infeasible(diagnosis: Diagnosis, planner: str) -> str:
    """What was asked, what binds, and what would fit, in a few lines."""
    limits = diagnosis.limits
    asked = tell_limits(limits, article="the")
    sure = f"with {format_confidence(limits.confidence)} confidence"
    what = f"keeps {asked} {sure}" if asked else "fits the cluster"
    lines = [f"the {planner} planner finds no plan that {what}.", _tell_binding(diagnosis)]
    if diagnosis.fastest is not None:
        lines.append(f"  fastest plan:  {_promise(diagnosis.fastest, limits.confidence)}")
    if diagnosis.cheapest is not None:
        lines.append(f"  cheapest plan: {_promise(diagnosis.cheapest, limits.confidence)}")
    lines += [f"  would fit: {_offer(remedy, diagnosis)}" for remedy in diagnosis.remedies]
    return "\n".join(lines)


def _tell_binding(diagnosis: Diagnosis) -> str:
    nodes = plural(diagnosis.max_nodes, "node")
    key = "nodes" if diagnosis.fixed else "max_nodes"
    match diagnosis.binding:
        case Limit.MAX_NODES if diagnosis.fastest is None and diagnosis.hops:
            return f"{key} binds: {nodes} cannot give every search that runs side by side one of its own."
        case Limit.MAX_NODES if diagnosis.fastest is None:
            return f"{key} binds: {nodes} cannot hold the smallest gangs of all trials that run side by side."
        case Limit.MAX_NODES:
            return f"{key} binds: no plan on {nodes} is that fast."
        case Limit.DEADLINE:
            return "The deadline binds: no number of nodes makes the job that fast."
        case Limit.BUDGET if diagnosis.limits.deadline_s is None:
            return "The budget binds: no plan is that cheap, however long it takes."
        case Limit.BUDGET:
            return "The budget binds: no plan that keeps the deadline is that cheap."


def _promise(fit: Forecast, confidence: float) -> str:
    level = format_confidence(confidence)
    return (
        f"mean {format_duration(fit.jct_seconds)} and {format_usd(fit.cost)}, "
        f"{level} quantile {format_duration(fit.jct_quantile_seconds)} and {format_usd(fit.cost_quantile)}"
    )


def _offer(remedy: Remedy, diagnosis: Diagnosis) -> str:
    changes = []
    if remedy.deadline_s is not None:
        changes.append(f"deadline: {write_duration(remedy.deadline_s)}")
    if remedy.budget_usd is not None:
        changes.append(f"budget: ${remedy.budget_usd:.2f}")
    if remedy.max_nodes is not None:
        instead = " instead of nodes" if diagnosis.fixed else ""
        changes.append(f"max_nodes: {remedy.max_nodes}{instead}")
    mean = f"mean {format_duration(remedy.forecast.jct_seconds)} and {format_usd(remedy.forecast.cost)}"
    return f"{' with '.join(changes)} ({mean})"
