"""The metric: its direction, and the target at which a run may stop early.

Slot processes import this, so it needs neither numpy nor scipy.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass


class Mode(enum.StrEnum):
    """Whether the best value of the metric is the largest or the smallest."""

    MAX = "max"
    MIN = "min"

    def better(self, a: float, b: float) -> bool:
        """Whether `a` is strictly better than `b`. Any number is better than NaN; NaN is never better."""
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
        """The direction of a metric with such a target."""
        return Mode.MAX if self in (Inequality.AT_LEAST, Inequality.ABOVE) else Mode.MIN


_HOLDS: Mapping[Inequality, Callable[[float, float], bool]] = {
    Inequality.AT_LEAST: operator.ge,
    Inequality.ABOVE: operator.gt,
    Inequality.AT_MOST: operator.le,
    Inequality.BELOW: operator.lt,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`accuracy >= 0.97`. A value better than one that reaches it reaches it, too."""

    metric: str
    comparison: Inequality
    value: float

    def is_reached_by(self, value: float) -> bool:
        return _HOLDS[self.comparison](value, self.value)

    @property
    def mode(self) -> Mode:
        return self.comparison.mode

    def __str__(self) -> str:
        """As written in a job, without loss."""
        return f"{self.metric} {self.comparison} {repr(self.value).removesuffix('.0')}"
