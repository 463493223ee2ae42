"""Latencies as distributions: constant, normal (clipped at zero), log-normal, empirical; and their sums.

Quantiles give the latency of the slowest of several nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from elastune.errors import InvariantError

Array = npt.NDArray[np.float64]

# Beyond this many values a sum is drawn at once. Measured on 400,000 sums, the error in the 95 % quantile is
# below 0.1 % for log-normal values with a coefficient of variation of 0.5 (0.3 % at 1.0) and below 0.9 % for
# normal ones clipped at 0.4 standard deviations.
EXACT_SUMMANDS = 64
EXACT_LOGNORMAL_SUMMANDS = 8


class Distribution(Protocol):
    """A latency in seconds, never negative; a value, which can be a key."""

    def __hash__(self) -> int: ...

    @property
    def mean(self) -> float: ...

    @property
    def sd(self) -> float: ...

    def quantile(self, probability: Array) -> Array: ...

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array: ...


def scaled(distribution: Distribution, factor: float) -> Distribution:
    match distribution:
        case Constant(value):
            return Constant(value * factor)
        case Normal(location, scale):
            return Normal(location * factor, scale * factor)
        case LogNormal(mean, sd):
            return LogNormal(mean * factor, sd * factor)
        case Empirical(values):
            return Empirical(tuple(value * factor for value in values))
        case _:
            raise InvariantError(f"cannot scale {distribution}; expected one of the distributions here")


def is_constant(distribution: Distribution) -> bool:
    return distribution.sd == 0.0


@dataclass(frozen=True, slots=True)
class Constant:
    value: float

    @property
    def mean(self) -> float:
        return self.value

    @property
    def sd(self) -> float:
        return 0.0

    def quantile(self, probability: Array) -> Array:
        return np.full_like(probability, self.value)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.full(shape, self.value)


@dataclass(frozen=True, slots=True)
class Normal:
    """`max(0, x)` with x normal. `mean` and `sd` are those of the clipped values."""

    location: float
    scale: float

    @property
    def mean(self) -> float:
        return self._moments()[0]

    @property
    def sd(self) -> float:
        return self._moments()[1]

    def _moments(self) -> tuple[float, float]:
        return _clipped_moments(self.location, self.scale)

    def quantile(self, probability: Array) -> Array:
        from scipy.special import ndtri  # noqa: PLC0415 - a third of a second for every process of a run

        return np.maximum(0.0, self.location + self.scale * ndtri(probability))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.maximum(0.0, rng.normal(self.location, self.scale, shape))


@lru_cache(maxsize=1024)  # every gang of a simulation asks for those of the profile
def _clipped_moments(location: float, scale: float) -> tuple[float, float]:
    if scale == 0.0:
        return max(0.0, location), 0.0
    from scipy.special import ndtr  # noqa: PLC0415 - a third of a second for every process of a run

    z = location / scale
    above = float(ndtr(z))
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    mean = location * above + scale * density
    square = (location**2 + scale**2) * above + location * scale * density
    return mean, math.sqrt(max(0.0, square - mean * mean))


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Log-normal, given by the mean and the standard deviation of the latency itself."""

    mean: float
    sd: float

    @property
    def _sigma(self) -> float:
        return math.sqrt(math.log1p((self.sd / self.mean) ** 2))

    @property
    def _mu(self) -> float:
        return math.log(self.mean) - self._sigma**2 / 2.0

    def quantile(self, probability: Array) -> Array:
        from scipy.special import ndtri  # noqa: PLC0415 - a third of a second for every process of a run

        return np.exp(self._mu + self._sigma * ndtri(probability))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.lognormal(self._mu, self._sigma, shape)


@dataclass(frozen=True, slots=True)
class Empirical:
    """The measured values, equally likely, in ascending order."""

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(sorted(self.values)))

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @property
    def sd(self) -> float:
        if self.values[0] == self.values[-1]:  # the sum below would leave a rounding error
            return 0.0
        mean = self.mean
        return math.sqrt(math.fsum((v - mean) ** 2 for v in self.values) / len(self.values))

    def quantile(self, probability: Array) -> Array:
        count = len(self.values)
        rank = np.clip(np.ceil(probability * count).astype(int) - 1, 0, count - 1)
        return np.asarray(np.take(self.values, rank), dtype=np.float64)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.choice(np.asarray(self.values), shape)


def draw_sums(
    distribution: Distribution, rng: np.random.Generator, counts: npt.NDArray[np.int64], rows: int
) -> Array:
    """`rows` x `len(counts)` sums; column j adds `counts[j]` independent latencies.

    Small sums are added up. Larger ones are one draw from the normal distribution with the same mean and
    variance or, for log-normal latencies, from such a log-normal one (Fenton and Wilkinson), whose skewness
    is nearly right too. An unclipped normal is never added up.
    """
    if is_constant(distribution):
        return np.broadcast_to(distribution.mean * counts, (rows, counts.size))
    adds_up = isinstance(distribution, Normal) and distribution.location > 6 * distribution.scale
    exact = EXACT_LOGNORMAL_SUMMANDS if isinstance(distribution, LogNormal) else EXACT_SUMMANDS
    limit = 0 if adds_up else exact
    few, many = np.flatnonzero((counts > 0) & (counts <= limit)), np.flatnonzero(counts > limit)
    if many.size == counts.size:
        return _draw_total(distribution, rng, counts, rows)
    sums = np.zeros((rows, counts.size))
    if many.size:
        sums[:, many] = _draw_total(distribution, rng, counts[many], rows)
    if few.size:
        sums[:, few] = _add_up(distribution, rng, counts[few], rows)
    return sums


def _draw_total(
    distribution: Distribution, rng: np.random.Generator, counts: npt.NDArray[np.int64], rows: int
) -> Array:
    means, sds = distribution.mean * counts, distribution.sd * np.sqrt(counts)
    normal = rng.standard_normal((rows, counts.size))
    if isinstance(distribution, LogNormal):
        sigma = np.sqrt(np.log1p((sds / means) ** 2))
        return np.asarray(np.exp(np.log(means) - sigma**2 / 2 + sigma * normal))
    normal *= sds
    normal += means
    return np.maximum(0.0, normal, out=normal)


def _add_up(
    distribution: Distribution, rng: np.random.Generator, counts: npt.NDArray[np.int64], rows: int
) -> Array:
    total = np.zeros((rows, counts.size))
    for step in range(int(counts.max())):
        owing = np.flatnonzero(counts > step)
        latencies = distribution.draw(rng, (rows, owing.size))
        if owing.size == counts.size:  # adding to all columns at once is several times faster
            total += latencies
        else:
            total[:, owing] += latencies
    return total
