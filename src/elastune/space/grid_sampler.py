"""Grid search: every combination once, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.space.quantile import steps
from elastune.space.sampler import Configuration
from elastune.space.space import Domain, Scalar, Space, SpaceError

_MOST_POINTS = 1_000_000


class GridSampler:
    """The product of all points; the last hyperparameter changes fastest.

    The combinations are counted, not listed: a trial's number is read as a number with one digit per
    hyperparameter, so that a grid of billions costs nothing until it is asked.
    """

    def __init__(self, space: Space) -> None:
        self._template = dict.fromkeys(space.entries) | space.constants
        self._points = [(name, _points(name, domain)) for name, domain in reversed(space.domains.items())]
        self.size = math.prod(len(points) for _, points in self._points)

    def ask(self, trial: int) -> Configuration | None:
        if trial >= self.size:
            return None
        configuration = self._template.copy()
        rest = trial
        for name, points in self._points:
            rest, position = divmod(rest, len(points))
            configuration[name] = points[position]
        return configuration


def _points(name: str, domain: Domain) -> Sequence[Scalar]:
    match domain.distribution:
        case CategoricalDistribution(choices=choices):
            return choices
        case IntDistribution(low=low, high=high, step=step):
            return range(low, high + 1, step)
        case FloatDistribution(low=lowest, high=highest) if lowest == highest:
            return (lowest,)
        case FloatDistribution(step=None) as distribution if domain.grid:
            return _spaced(distribution, domain.grid)
        case FloatDistribution(low=lowest, high=highest, step=None):
            written = f"{{float: [{lowest:g}, {highest:g}], grid: 5}}"
            raise SpaceError(
                (name,),
                f"is continuous and a grid needs points; give a step, or how many points: {written}",
            )
        case FloatDistribution() as distribution:
            count, value_at = steps(distribution)
            if count > _MOST_POINTS:
                raise SpaceError(
                    (name, "step"), f"makes {count:,} points; a grid takes {_MOST_POINTS:,} at most"
                )
            return [value_at(position) for position in range(count)]


def _spaced(distribution: FloatDistribution, count: int) -> list[float]:
    """Both ends are points; with `log` the ratio of neighbours is constant instead of the difference."""
    spaced = np.geomspace if distribution.log else np.linspace
    between: list[float] = spaced(distribution.low, distribution.high, count).tolist()
    return [distribution.low, *between[1:-1], distribution.high]
