"""Which way a metric is good.

When a model is good enough: what a run may stop at before its search is through.

What a plan leads to: samples of its completion time and its cost, and their summary.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from elastune.model.distributions import Array
from elastune.wording import format_duration, format_usd


class Mode(enum.StrEnum):
    """Whether the best value of the metric is the largest or the smallest."""

    MAX = "max"
    MIN = "min"

    def better(self, a: float, b: float) -> bool:
        """Whether `a` is strictly better than `b`. Any number is better than NaN, and NaN beats nothing."""
        if math.isnan(b):
            return not math.isnan(a)
        return a > b if self is Mode.MAX else a < b


class Inequality(enum.StrEnum):
    AT_LEAST = ">="
    ABOVE = ">"
    AT_MOST = "<="
    BELOW = "<"

    @property
    def mode(self) -> Mode:
        """Which way a metric is good that is compared so."""
        return Mode.MAX if self in (Inequality.AT_LEAST, Inequality.ABOVE) else Mode.MIN


_HOLDS: Mapping[Inequality, Callable[[float, float], bool]] = {
    Inequality.AT_LEAST: operator.ge,
    Inequality.ABOVE: operator.gt,
    Inequality.AT_MOST: operator.le,
    Inequality.BELOW: operator.lt,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`accuracy >= 0.97`. What is better than a value that reaches it reaches it, too."""

    metric: str
    comparison: Inequality
    value: float

    def is_reached_by(self, value: float) -> bool:
        return _HOLDS[self.comparison](value, self.value)

    @property
    def mode(self) -> Mode:
        return self.comparison.mode

    def __str__(self) -> str:
        """As it is written in a job, without loss."""
        return f"{self.metric} {self.comparison} {repr(self.value).removesuffix('.0')}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Per sample: job completion time and cost; per stage: means."""

    jct_s: Array
    cost_usd: Array
    stage_mean_s: tuple[float, ...]
    stage_mean_usd: tuple[float, ...]

    @property
    def mean_jct_s(self) -> float:
        return float(self.jct_s.mean())

    @property
    def mean_cost_usd(self) -> float:
        return float(self.cost_usd.mean())

    def jct_quantile_s(self, probability: float) -> float:
        return quantile(self.jct_s, probability)

    def cost_quantile_usd(self, probability: float) -> float:
        return quantile(self.cost_usd, probability)


def quantile(values: Array, probability: float) -> float:
    """The smallest value that at least this share of the samples does not exceed."""
    return float(np.quantile(values, probability, method="inverted_cdf"))


# A plan that ends at the deadline to the last bit is in time; sums of floats are not exact to it.
ROUNDING = 1e-9


class Objective(enum.Enum):
    """What to make small within the limits."""

    COST = "cost"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The promise. Both limits have to hold with probability `confidence`."""

    deadline_s: float | None = None
    budget_usd: float | None = None
    confidence: float = 0.95

    def keep(self, outcome: Outcome) -> bool:
        """Whether both hold at the asked confidence."""
        return self.keep_deadline(outcome) and self.keep_budget(outcome)

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
        """Whether that much is left of it, too."""
        budget = self.budget_usd
        if budget is None:
            return True
        return outcome.cost_quantile_usd(self.confidence) + kept_usd <= budget * (1 + ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangLimits:
    """How many slots one trial may have."""

    min_slots: int = 1
    max_slots: int | None = None


class Limit(enum.Enum):
    """What stands in the way."""

    DEADLINE = "deadline"
    BUDGET = "budget"
    MAX_NODES = "max_nodes"


def tell_limits(limits: Limits, *, article: str = "a") -> str:
    """`a deadline of 20m00s and a budget of $30.00`; nothing if there is neither."""
    told = []
    if limits.deadline_s is not None:
        told.append(f"{article} deadline of {format_duration(limits.deadline_s)}")
    if limits.budget_usd is not None:
        told.append(f"{article} budget of {format_usd(limits.budget_usd)}")
    return " and ".join(told)
