"""Means with standard errors, and differences seed by seed, in which the luck that both had cancels out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True, slots=True)
class Average:
    """`se` is the standard error of `mean`; 0 where there is but one value."""

    mean: float
    se: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.se:.3f}"


def average(values: Sequence[float]) -> Average:
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Average(fmean(values), error)


def difference(values: Sequence[float], others: Sequence[float]) -> Average:
    """Of the first to the second, paired."""
    return average([value - other for value, other in zip(values, others, strict=True)])
