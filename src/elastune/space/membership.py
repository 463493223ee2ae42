"""Whether a value that somebody wrote lies in a distribution, and how the distribution holds it.

A whole number may be written as 3.0, a stepped value may miss its step by a rounding error; nothing is moved
farther than that.
"""

from __future__ import annotations

from numbers import Integral, Real

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.space.quantile import steps
from elastune.space.space import Distribution, Scalar
from elastune.wording import several

_ROUNDING = 1e-8


class NotInsideError(ValueError):
    """A value is not in the distribution; the text says what is."""


def fitted(distribution: Distribution, value: object) -> Scalar:
    """The value as the distribution holds it; raises `NotInsideError`."""
    found: Scalar = None
    match distribution:
        case CategoricalDistribution(choices=choices):
            position = next((at for at, choice in enumerate(choices) if same(choice, value)), None)
            if position is None:
                raise NotInsideError(allowed(distribution))
            return choices[position]
        case IntDistribution():
            found = _whole(distribution, value)
        case FloatDistribution(step=None):
            found = _number(distribution, value)
        case FloatDistribution():
            found = _stepped(distribution, value)
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


def _stepped(distribution: FloatDistribution, value: object) -> float | None:
    assert distribution.step is not None
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    count, value_at = steps(distribution)
    position = (float(value) - distribution.low) / distribution.step
    if not -_ROUNDING <= position <= count - 1 + _ROUNDING or abs(position - round(position)) > _ROUNDING:
        return None
    return value_at(round(position))
