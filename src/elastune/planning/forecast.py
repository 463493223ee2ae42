"""What a plan comes to, in numbers that can be promised."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.planning.brackets import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`jct_seconds` and `cost` are means, the quantiles those at the job's confidence."""

    jct_seconds: float
    cost: float
    jct_quantile_seconds: float
    cost_quantile: float
    peak_nodes: int


def forecast(answer: Answer | None, confidence: float) -> Forecast | None:
    """The numbers of an answer, if there is one."""
    if answer is None:
        return None
    return Forecast(
        jct_seconds=answer.outcome.mean_jct_s,
        cost=answer.outcome.mean_cost_usd,
        jct_quantile_seconds=answer.outcome.jct_quantile_s(confidence),
        cost_quantile=answer.outcome.cost_quantile_usd(confidence),
        peak_nodes=answer.peak_nodes,
    )
