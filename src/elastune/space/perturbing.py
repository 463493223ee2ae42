"""A configuration near another one, as Population Based Training explores (Jaderberg et al. 2017, section 4).

A number is multiplied by 0.8 or 1.2 (their `perturb`) or, one time in four, drawn anew (their `resample`). A
choice stays or, one time in four, is drawn anew: trained weights seldom survive another optimizer.
Deliberate deviations: where rounding to whole numbers or steps would leave a number as it was, it moves by
one step; and a hyperparameter that the parent does not have, because it is only there under a condition, is
drawn.
"""

from __future__ import annotations

import math

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.space.membership import NotInsideError, fitted
from elastune.space.quantile import quantile, steps
from elastune.space.sampler import AnySpace, Configuration
from elastune.space.space import Distribution, Scalar

FACTORS = (0.8, 1.2)
DRAWN_ANEW = 0.25


def perturbed(space: AnySpace, parent: Configuration, seed: tuple[int, ...]) -> dict[str, Scalar]:
    """Always inside the space; the same for the same parent and seed."""
    rng = np.random.default_rng(seed)

    def draw(name: str, distribution: Distribution) -> Scalar:
        # Three numbers whatever happens, so that one hyperparameter does not disturb the next.
        redraw, direction, share = rng.random(3).tolist()
        if name in parent and redraw >= DRAWN_ANEW:
            moved = _moved(distribution, parent[name], FACTORS[direction >= 0.5])
            if moved is not None:
                return moved
        return quantile(distribution)(share)

    return space.configure(draw)


def _moved(distribution: Distribution, value: Scalar, factor: float) -> Scalar:
    """None: the distribution has no such value, so there is nothing to start from."""
    try:
        before = fitted(distribution, value)
    except NotInsideError:
        return None
    if isinstance(distribution, CategoricalDistribution):
        return before
    assert isinstance(before, int | float)
    wanted = min(distribution.high, max(distribution.low, before * factor))
    if isinstance(distribution, IntDistribution):
        return _on_step(distribution, before, wanted)
    if distribution.step is None:
        return float(wanted)
    return _on_decimal_step(distribution, before, wanted)


def _on_step(distribution: IntDistribution, before: float, wanted: float) -> int:
    low, step = distribution.low, distribution.step
    last = (distribution.high - low) // step
    return low + step * _position((before - low) / step, (wanted - low) / step, last)


def _on_decimal_step(distribution: FloatDistribution, before: float, wanted: float) -> float:
    assert distribution.step is not None
    count, value_at = steps(distribution)
    low, step = distribution.low, distribution.step
    return value_at(_position((before - low) / step, (wanted - low) / step, count - 1))


def _position(before: float, wanted: float, last: int) -> int:
    """The step nearest to the wanted one, but not the one before, if there is another in that direction."""
    here, there = round(before), round(wanted)
    if here == there and wanted != before:
        there += int(math.copysign(1, wanted - before))
    return min(last, max(0, there))
