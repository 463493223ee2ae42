"""From a uniform number to a value of a distribution: the inverse of its cumulative distribution function.

The values are plain Python (JSON can hold them) and lie inside the distribution, also where rounding would
carry them over its edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.space.space import Distribution, Scalar

Quantile = Callable[[float], Scalar]


def quantile(distribution: Distribution) -> Quantile:
    """A function that takes a number in [0, 1); prepared once, because it is called once per trial."""
    match distribution:
        case CategoricalDistribution(choices=choices):
            return lambda share: choices[int(share * len(choices))]
        case IntDistribution(low=low, high=high, log=True):
            return _log_int(low, high)
        case IntDistribution(low=low, high=high, step=step):
            count = (high - low) // step + 1
            return lambda share: low + min(int(share * count), count - 1) * step
        case FloatDistribution(step=None):
            return _continuous(distribution)
        case FloatDistribution():
            return _stepped(distribution)


def steps(distribution: FloatDistribution) -> tuple[int, Callable[[int], float]]:
    """How many values a stepped range has, and the value at a position.

    In decimals, as Optuna does it: 0.1 + 2 x 0.1 is 0.3 here, and not 0.30000000000000004.
    """
    low, high, step = (Decimal(str(end)) for end in (distribution.low, distribution.high, distribution.step))
    return int((high - low) / step) + 1, lambda position: float(low + position * step)


def _stepped(distribution: FloatDistribution) -> Quantile:
    count, value_at = steps(distribution)
    return lambda share: value_at(min(int(share * count), count - 1))


def _continuous(distribution: FloatDistribution) -> Quantile:
    low, high = distribution.low, distribution.high
    if distribution.log:
        start, width = math.log(low), math.log(high) - math.log(low)
        return lambda share: min(high, max(low, math.exp(start + share * width)))
    return lambda share: min(high, max(low, low + share * (high - low)))


def _log_int(low: int, high: int) -> Quantile:
    """Each whole number has the share of the interval half a unit around it, as in Optuna."""
    start = math.log(low - 0.5)
    width = math.log(high + 0.5) - start
    return lambda share: min(high, max(low, round(math.exp(start + share * width))))
