"""Plans for what is left, when a run has left its plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from elastune.core import State
from elastune.planning import Limits, Objective, Problem, Quote
from elastune.planning.infeasible import Limit

Planner = Callable[[Problem, Objective | None], Quote | None]
"""The best plan for a problem; None if none keeps its limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What the stages still to come take by plan, and the margin that the promise keeps on top."""

    seconds: float
    usd: float
    margin_s: float
    margin_usd: float


def rest_of(quote: Quote, bracket: int, stage: int) -> Rest:
    """From the given stage of the quoted plan on.

    Noise adds up like its root, so the margin shrinks like it.
    """
    left = quote.brackets[bracket].stages[stage:]
    seconds, usd = sum(s.seconds for s in left), sum(s.cost for s in left)
    share = min(1.0, (seconds / quote.jct_seconds) ** 0.5) if quote.jct_seconds else 0.0
    return Rest(
        seconds=seconds,
        usd=usd,
        margin_s=share * max(0.0, quote.jct_quantile_seconds - quote.jct_seconds),
        margin_usd=share * max(0.0, quote.cost_quantile - quote.cost),
    )


def limits_left(state: State) -> Limits:
    time, money = state.time_left_s, state.money_left_usd
    return replace(
        state.limits,
        deadline_s=None if time is None else max(0.0, time),
        budget_usd=None if money is None else max(0.0, money),
    )


def find_plan(
    planner: Planner, problem: Problem, state: State, quoted_usd: float
) -> tuple[Quote | None, Limit | None]:
    """A plan that keeps both limits; else one without the limit that yields, which is named; else what can
    be had.

    A budget that nobody gave is what was quoted: money beyond it is spent only to keep the deadline.
    """
    quote = planner(problem, None)
    if quote is not None:
        return quote, None
    limits, yields = problem.limits, state.terms.yields
    if yields is Limit.BUDGET and limits.budget_usd is not None:
        quote = planner(replace(problem, limits=limits.without_budget()), Objective.COST)
        if quote is not None:
            return quote, yields
    if limits.budget_usd is None:
        left = quoted_usd - state.ledger.spent_usd(state.now_s)
        limits = replace(limits, budget_usd=max(0.0, left))
    quote = planner(replace(problem, limits=limits.without_deadline()), Objective.TIME)
    conceded = yields if yields is Limit.DEADLINE and problem.limits.deadline_s is not None else None
    if quote is not None:
        return quote, conceded
    at_hand = max(1, len(state.where))
    cluster = replace(problem.cluster, max_nodes=min(at_hand, problem.cluster.max_nodes))
    least = replace(problem, limits=Limits(confidence=limits.confidence), cluster=cluster)
    return planner(least, Objective.TIME), conceded
