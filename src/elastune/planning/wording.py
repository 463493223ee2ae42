"""What is said when no plan keeps the limits."""

from __future__ import annotations

import math

from elastune.planning.forecast import Forecast
from elastune.planning.infeasible import Diagnosis, Limit
from elastune.units import format_duration, format_percent, format_usd, plural


def tell_infeasible(diagnosis: Diagnosis, planner: str) -> str:
    """What was asked, what binds, and what would fit, in a few lines."""
    limits = diagnosis.limits
    asked = []
    if limits.deadline_s is not None:
        asked.append(f"the deadline of {format_duration(limits.deadline_s)}")
    if limits.budget_usd is not None:
        asked.append(f"the budget of {format_usd(limits.budget_usd)}")
    sure = f"with {format_percent(limits.confidence)} confidence"
    what = f"keeps {' and '.join(asked)} {sure}" if asked else "fits the cluster"
    lines = [f"no plan of the {planner} planner {what}.", _tell_binding(diagnosis)]
    lines += [f"  {line}" for line in _ways_out(diagnosis)]
    return "\n".join(lines)


def _tell_binding(diagnosis: Diagnosis) -> str:
    match diagnosis.binding:
        case Limit.MAX_NODES if diagnosis.fastest is None:
            return f"max_nodes binds: {plural(diagnosis.max_nodes, 'node')} cannot hold the smallest gang."
        case Limit.MAX_NODES:
            return f"max_nodes binds: {plural(diagnosis.max_nodes, 'node')} are too few for the deadline."
        case Limit.DEADLINE:
            return "The deadline binds: no number of nodes makes the job that fast."
        case Limit.BUDGET if diagnosis.fastest_in_budget is None:
            return "The budget binds: no plan is that cheap, however long it takes."
        case Limit.BUDGET:
            return "The budget binds: each limit can be kept, but not both."


def _ways_out(diagnosis: Diagnosis) -> list[str]:
    """Each line names limits that would fit, rounded up so that they really do."""
    limits = diagnosis.limits
    lines = []
    if diagnosis.fastest is not None:
        lines.append(f"fastest plan:  {_promise(diagnosis.fastest, limits.confidence)}")
    if diagnosis.cheapest is not None:
        lines.append(f"cheapest plan: {_promise(diagnosis.cheapest, limits.confidence)}")
    if diagnosis.with_more_nodes is not None:
        more = diagnosis.with_more_nodes
        lines.append(f"would fit: max_nodes: {more.peak_nodes}, at a mean of {format_usd(more.cost)}")
    if diagnosis.binding is not Limit.BUDGET and diagnosis.fastest is not None:
        lines.append(f"would fit: deadline: {_seconds_up(diagnosis.fastest.jct_quantile_seconds)}")
        return lines
    if diagnosis.cheapest_in_time is not None:
        lines.append(f"would fit: budget: {_usd_up(diagnosis.cheapest_in_time.cost_quantile)}")
    elif limits.deadline_s is None and diagnosis.cheapest is not None:
        lines.append(f"would fit: budget: {_usd_up(diagnosis.cheapest.cost_quantile)}")
    if diagnosis.fastest_in_budget is not None and limits.deadline_s is not None:
        lines.append(f"would fit: deadline: {_seconds_up(diagnosis.fastest_in_budget.jct_quantile_seconds)}")
    return lines


def _promise(fit: Forecast, confidence: float) -> str:
    level = format_percent(confidence)
    return (
        f"mean {format_duration(fit.jct_seconds)} and {format_usd(fit.cost)}, "
        f"{level} quantile {format_duration(fit.jct_quantile_seconds)} and {format_usd(fit.cost_quantile)}"
    )


def _seconds_up(seconds: float) -> str:
    return f"{math.ceil(seconds)}s"


def _usd_up(usd: float) -> str:
    return f"${math.ceil(usd * 100) / 100:.2f}"
