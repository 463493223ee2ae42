"""Samplers that do not learn: grid, random and quasi-random search.

The quasi-random sequences are those of scipy on which Optuna's `QMCSampler` is built. That one takes its
points in the order of asks and draws choices at random; here trial k has point k, whenever it is asked for,
and choices have a dimension like everything else.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.model.configuration import Configuration, Scalar
from elastune.space.sampler import AnySpace, ShareSampler, SpaceSampler
from elastune.space.space import Distribution, Domain, Draw, Space, SpaceError
from elastune.space.values import steps

QuasiRandomSequence = Literal["sobol", "halton"]
_MOST_POINTS = 1_000_000
_MOST_BRANCHES = 100_000
_BLOCK = 256
# The period of scipy's Sobol sequence (30 bits).
_PERIOD = 2**30
# scipy may round up to 1, which no range and no choice has.
_LAST = 1.0 - 2.0**-53


class GridSampler(SpaceSampler):
    """Every combination of the points once; the last hyperparameter changes fastest.

    Combinations are not listed: a trial's number is read as a number with one digit per hyperparameter, so a
    grid of billions costs nothing. Only the values that conditions depend on are enumerated; each combination
    of them is a branch with a product of its own.
    """

    def __init__(self, space: AnySpace, *, seed: int = 0) -> None:
        if not isinstance(space, Space):
            raise SpaceError(
                (),
                f"is the function {space.name}, and a grid needs points that can be counted; write the space "
                "as hyperparameters by name, or choose another search.sampler",
            )
        super().__init__(space, seed=seed)
        self._written = space
        self._points = {name: _points(name, domain) for name, domain in space.domains.items()}
        self._parents = {each.parent for domain in space.domains.values() for each in domain.when}
        self._branches = list(self._enumerate_branches(space))
        sizes = (math.prod(len(self._points[name]) for name in free) for _, free in self._branches)
        self._ends = list(itertools.accumulate(sizes))

    @property
    def size(self) -> int:
        return self._ends[-1]

    def ask(self, trial: int) -> Configuration | None:
        if trial >= self.size:
            return None
        branch = bisect.bisect_right(self._ends, trial)
        settled, free = self._branches[branch]
        values = dict(settled)
        rest = trial - (self._ends[branch - 1] if branch else 0)
        for name in reversed(free):
            points = self._points[name]
            rest, position = divmod(rest, len(points))
            values[name] = points[position]
        return self._written.nested({name: values[name] for name in self._written.entries if name in values})

    def position(self, wanted: Configuration) -> int | None:
        """The trial that would get this configuration; None: it is no point of the grid."""
        configuration = self._written.flat(wanted)
        for branch, (settled, free) in enumerate(self._branches):
            if configuration.keys() != settled.keys() | set(free) or any(
                configuration[name] != value for name, value in settled.items()
            ):
                continue
            number = 0
            for name in free:
                points = self._points[name]
                if configuration[name] not in points:
                    return None
                number = number * len(points) + points.index(configuration[name])
            return number + (self._ends[branch - 1] if branch else 0)
        return None

    def draw(self, trial: int) -> Draw:
        """Random points, for the values that a given configuration leaves open."""
        rng = np.random.default_rng((self._seed, trial))

        def draw(name: str, _: Distribution) -> Scalar:
            points = self._points[name]
            return points[int(rng.random() * len(points))]

        return draw

    def _enumerate_branches(self, space: Space) -> Iterator[tuple[Mapping[str, Scalar], tuple[str, ...]]]:
        """Each combination of the values that conditions depend on, and the other active hyperparameters."""
        parents = [(name, each) for name, each in space.in_order.items() if name in self._parents]
        if math.prod(len(self._points[name]) for name, _ in parents) > _MOST_BRANCHES:
            names = " and ".join(name for name, _ in parents)
            text = f"has conditions on {names}, which have more than {_MOST_BRANCHES:,} points together"
            raise SpaceError((), text)
        branches: list[dict[str, Scalar]] = [space.constants]
        for name, domain in parents:
            branches = [
                longer
                for branch in branches
                for longer in (
                    [{**branch, name: point} for point in self._points[name]]
                    if domain.is_active(branch)
                    else [branch]
                )
            ]
        others = [(name, each) for name, each in space.domains.items() if name not in self._parents]
        for branch in branches:
            yield branch, tuple(name for name, domain in others if domain.is_active(branch))


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
            example = f"{{float: [{lowest:g}, {highest:g}], grid: 5}}"
            text = f"is continuous and a grid needs points; give a step, or how many points: {example}"
            raise SpaceError((name,), text)
        case FloatDistribution() as distribution:
            count, value_at = steps(distribution)
            if count > _MOST_POINTS:
                text = f"makes {count:,} points; a grid takes {_MOST_POINTS:,} at most"
                raise SpaceError((name, "step"), text)
            return [value_at(position) for position in range(count)]


def _spaced(distribution: FloatDistribution, count: int) -> list[float]:
    """Both ends are points; with `log` the ratio of neighbours is constant instead of the difference."""
    spaced = np.geomspace if distribution.log else np.linspace
    between: list[float] = spaced(distribution.low, distribution.high, count).tolist()
    return [distribution.low, *between[1:-1], distribution.high]


class RandomSampler(ShareSampler):
    """One uniform number per hyperparameter, from a generator seeded by (seed, trial)."""

    def __init__(self, space: AnySpace, *, seed: int) -> None:
        super().__init__(space, seed=seed)
        self._is_plain = isinstance(space, Space) and space.is_flat and not space.is_conditional
        # All names in the written order; `ask` fills in the values.
        self._template = dict.fromkeys(space.entries) | space.constants if isinstance(space, Space) else {}

    def shares(self, trial: int) -> list[float]:
        shares: list[float] = np.random.default_rng((self._seed, trial)).random(self._count).tolist()
        return shares

    def ask(self, trial: int) -> Configuration:
        if not self._is_plain:
            return self._space.configure(self.draw(trial))
        # Without a call per hyperparameter: large searches ask for a million configurations.
        configuration = self._template.copy()
        for (name, value_at), share in zip(self._quantiles.items(), self.shares(trial), strict=True):
            configuration[name] = value_at(share)
        return configuration


class QmcSampler(ShareSampler):
    """A sequence that fills the space more evenly than chance, scrambled by the seed."""

    def __init__(self, space: AnySpace, *, seed: int, sequence: QuasiRandomSequence = "sobol") -> None:
        super().__init__(space, seed=seed)
        self._sequence = sequence
        self._block = lru_cache(maxsize=8)(self._make_block)

    def shares(self, trial: int) -> list[float]:
        if not self._count:
            return []
        block, place = divmod(trial % _PERIOD, _BLOCK)
        return self._block(block)[place]

    def _make_block(self, block: int) -> list[list[float]]:
        # This import takes half a second, and no other sampler needs it.
        from scipy.stats import qmc  # noqa: PLC0415

        make_engine = qmc.Sobol if self._sequence == "sobol" else qmc.Halton
        engine = make_engine(d=self._count, scramble=True, rng=self._seed)
        if block:
            engine.fast_forward(block * _BLOCK)
        points: list[list[float]] = engine.random(_BLOCK).clip(0.0, _LAST).tolist()
        return points
