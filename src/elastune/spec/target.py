"""When a model is good enough: what a run may stop at before its search is through."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from elastune.spec.mode import Mode


class Comparison(enum.StrEnum):
    AT_LEAST = ">="
    ABOVE = ">"
    AT_MOST = "<="
    BELOW = "<"

    @property
    def mode(self) -> Mode:
        """Which way a metric is good that is compared so."""
        return Mode.MAX if self in (Comparison.AT_LEAST, Comparison.ABOVE) else Mode.MIN


_HOLDS: Mapping[Comparison, Callable[[float, float], bool]] = {
    Comparison.AT_LEAST: operator.ge,
    Comparison.ABOVE: operator.gt,
    Comparison.AT_MOST: operator.le,
    Comparison.BELOW: operator.lt,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`accuracy >= 0.97`. What is better than a value that reaches it reaches it, too."""

    metric: str
    comparison: Comparison
    value: float

    def is_reached_by(self, value: float) -> bool:
        return _HOLDS[self.comparison](value, self.value)

    @property
    def mode(self) -> Mode:
        return self.comparison.mode

    def __str__(self) -> str:
        """As it is written in a job, without loss."""
        return f"{self.metric} {self.comparison} {repr(self.value).removesuffix('.0')}"
