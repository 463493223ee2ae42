"""The values of a distribution: from a uniform number to a value, and whether it holds a value that is given.

Values are plain Python, fit for JSON, and stay inside the distribution, also where rounding would carry them
over its edge. A given whole number may be written as 3.0, and a stepped value may miss its step by a rounding
error; nothing is moved farther than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from numbers import Integral, Real

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.model.configuration import Scalar
from elastune.space.space import Distribution
from elastune.wording import several

Quantile = Callable[[float], Scalar]
_ROUNDING = 1e-8


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
            count, value_at = steps(distribution)
            return lambda share: value_at(min(int(share * count), count - 1))


def steps(distribution: FloatDistribution) -> tuple[int, Callable[[int], float]]:
    """How many values a stepped range has, and the value at a position.

    In decimals, as in Optuna: 0.1 + 2 x 0.1 is 0.3, not 0.30000000000000004.
    """
    low, high, step = (Decimal(str(end)) for end in (distribution.low, distribution.high, distribution.step))
    return int((high - low) / step) + 1, lambda position: float(low + position * step)


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


class NotInsideError(ValueError):
    """A value is not in the distribution; the text says what is."""


def fitted(distribution: Distribution, value: object) -> Scalar:
    """The value as the distribution holds it; raises `NotInsideError`."""
    found: Scalar = None
    match distribution:
        case CategoricalDistribution(choices=choices):
            for choice in choices:
                if same(choice, value):
                    return choice
        case IntDistribution():
            found = _whole(distribution, value)
        case FloatDistribution(step=step):
            found = _number(distribution, value) if step is None else _on_step(distribution, value)
    if found is None:
        raise NotInsideError(allowed(distribution))
    return found


def allowed(distribution: Distribution) -> str:
    """What the distribution holds, in words."""
    match distribution:
        case CategoricalDistribution(choices=choices):
            return f"one of: {several(map(str, choices))}"
        case IntDistribution(low=low, high=high, step=step):
            apart = f" in steps of {step}" if step > 1 else ""
            return f"a whole number from {low} to {high}{apart}"
        case FloatDistribution(low=lowest, high=highest, step=width):
            apart = "" if width is None else f" in steps of {width:g}"
            return f"a number from {lowest:g} to {highest:g}{apart}"


def same(one: object, other: object) -> bool:
    """Equal, but true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _number(distribution: FloatDistribution | IntDistribution, value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    number = float(value)
    return number if distribution.low <= number <= distribution.high else None


def _whole(distribution: IntDistribution, value: object) -> int | None:
    number = _number(distribution, value)
    if number is None or number != number // 1:
        return None
    whole = int(value) if isinstance(value, Integral) else int(number)
    return whole if (whole - distribution.low) % distribution.step == 0 else None


def _on_step(distribution: FloatDistribution, value: object) -> float | None:
    assert distribution.step is not None
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    count, value_at = steps(distribution)
    position = (float(value) - distribution.low) / distribution.step
    if not -_ROUNDING <= position <= count - 1 + _ROUNDING or abs(position - round(position)) > _ROUNDING:
        return None
    return value_at(round(position))
