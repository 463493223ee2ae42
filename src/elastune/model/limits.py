"""Limits of time, money and gang sizes, and the outcome of a plan: samples of its time and cost."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

import numpy as np

from elastune.model.distributions import Array
from elastune.wording import format_duration, format_usd


@dataclass(frozen=True, slots=True)
class Outcome:
    """Per sample: job completion time and cost; per stage: means.

    Means are for survivors whose speed has nothing to do with their quality. Quantiles, and so the limits,
    hold in the worst case as well: the slower configurations are the better ones.
    """

    jct_s: Array
    cost_usd: Array
    stage_mean_s: tuple[float, ...]
    stage_mean_usd: tuple[float, ...]
    worst: Outcome | None = None  # None: the same

    @property
    def limited(self) -> Outcome:
        """The outcome for which limits have to hold."""
        return self.worst or self

    @property
    def mean_jct_s(self) -> float:
        return float(self.jct_s.mean())

    @property
    def mean_cost_usd(self) -> float:
        return float(self.cost_usd.mean())

    def jct_quantile_s(self, probability: float) -> float:
        return quantile(self.limited.jct_s, probability)

    def cost_quantile_usd(self, probability: float) -> float:
        return quantile(self.limited.cost_usd, probability)


def quantile(values: Array, probability: float) -> float:
    """The smallest value that at least this share of the samples does not exceed."""
    return float(np.quantile(values, probability, method="inverted_cdf"))


# A plan that ends exactly at the deadline keeps it; sums of floats are not exact.
ROUNDING = 1e-9


class Objective(enum.Enum):
    """What to minimise within the limits."""

    COST = "cost"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Both limits have to hold, together, with probability `confidence`."""

    deadline_s: float | None = None
    budget_usd: float | None = None
    confidence: float = 0.95

    def keep(self, outcome: Outcome) -> bool:
        """Both together: each alone could hold often enough, and both at once too seldom."""
        if self.deadline_s is None or self.budget_usd is None:
            return self.keep_deadline(outcome) and self.keep_budget(outcome)
        limited = outcome.limited
        in_time = limited.jct_s <= self.deadline_s * (1 + ROUNDING)
        in_budget = limited.cost_usd <= self.budget_usd * (1 + ROUNDING)
        return float(np.mean(in_time & in_budget)) >= self.confidence * (1 - ROUNDING)

    @property
    def are_set(self) -> bool:
        return self.deadline_s is not None or self.budget_usd is not None

    def without_deadline(self) -> Limits:
        return replace(self, deadline_s=None)

    def without_budget(self) -> Limits:
        return replace(self, budget_usd=None)

    def keep_deadline(self, outcome: Outcome) -> bool:
        deadline = self.deadline_s
        return deadline is None or outcome.jct_quantile_s(self.confidence) <= deadline * (1 + ROUNDING)

    def keep_budget(self, outcome: Outcome) -> bool:
        return self.keep_budget_but(outcome, 0.0)

    def keep_budget_but(self, outcome: Outcome, kept_usd: float) -> bool:
        """Whether the budget holds with `kept_usd` left."""
        budget = self.budget_usd
        if budget is None:
            return True
        return outcome.cost_quantile_usd(self.confidence) + kept_usd <= budget * (1 + ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangLimits:
    min_slots: int = 1
    max_slots: int | None = None


class Limit(enum.Enum):
    DEADLINE = "deadline"
    BUDGET = "budget"
    MAX_NODES = "max_nodes"


def describe_limits(limits: Limits, *, article: str = "a") -> str:
    """`a deadline of 20m00s and a budget of $30.00`; empty if there is neither."""
    parts = []
    if limits.deadline_s is not None:
        parts.append(f"{article} deadline of {format_duration(limits.deadline_s)}")
    if limits.budget_usd is not None:
        parts.append(f"{article} budget of {format_usd(limits.budget_usd)}")
    return " and ".join(parts)
