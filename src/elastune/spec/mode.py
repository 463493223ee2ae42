"""Which way a metric is good."""

from __future__ import annotations

import enum
import math


class Mode(enum.StrEnum):
    """Whether the best value of the metric is the largest or the smallest."""

    MAX = "max"
    MIN = "min"

    def better(self, a: float, b: float) -> bool:
        """Whether `a` is strictly better than `b`. Any number is better than NaN, and NaN beats nothing."""
        if math.isnan(b):
            return not math.isnan(a)
        return a > b if self is Mode.MAX else a < b
