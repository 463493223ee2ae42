"""Trainings of simulated runs: how configurations learn, how long that takes, and how a job names them.

`UnknownSource` stands for a training of which nothing is known: every trial has a random rank that it keeps.
`HyperSchedFunction` is the simulated training function of HyperSched (SoCC 2019, section 6),

    Score(k) = (2 - (1 / (0.01 b0 k + 0.1 b1 + 0.5) + 0.01 b2)) / 2

after k iterations, with b0 exponential of scale 0.1 and b1, b2 uniform on [0, 1]; there is no noise. The
paper takes 0.1 s per iteration at one slot.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from elastune.errors import JobError
from elastune.model.configuration import Configuration
from elastune.model.metric import Mode
from elastune.model.profile import Profile
from elastune.space.parsing import parse_space
from elastune.space.space import Space
from elastune.wording import seen

Row = Mapping[str, float]
Function = Callable[..., object]

CURVE_SUFFIXES = (".npz", ".parquet")
_SCALE = 0.1
_LAST_RANK = 0.9999
_METRIC = "score"


class Curve(Protocol):
    """How one configuration learns. Iterations count from 1; both ends of a range are included."""

    @property
    def length(self) -> int | None:
        """The iterations after which training ends by itself; None: endless, or not known yet."""
        ...

    def rows(self, first: int, last: int) -> Sequence[Row]:
        """The metrics of these iterations, fewer if the curve ends before. NaN: the training diverged.

        A second call gives the same rows, since a trial may lose work and repeat it. An exception is a crash
        of the user's code; calls for single iterations then find which one.
        """
        ...

    def seconds(self, first: int, last: int) -> Sequence[float] | None:
        """The measured seconds of these iterations on one slot; None: take the profile's."""
        ...


class CurveSource(Protocol):
    """All configurations together. Its properties are defaults for what the job does not give."""

    @property
    def metric(self) -> str:
        """The metric that every row has."""
        ...

    @property
    def mode(self) -> Mode | None: ...

    @property
    def space(self) -> Space | None: ...

    @property
    def table(self) -> Sequence[Configuration] | None:
        """All configurations; None: any can be trained."""
        ...

    @property
    def longest(self) -> int | None:
        """The most iterations worth training; None: not known."""
        ...

    def curve(self, config: Configuration, seed: tuple[int, int]) -> Curve:
        """`seed`: the seed of the run and the number of the trial, for random curves."""
        ...

    def profile(self) -> Profile | None:
        """The speed by the recorded times; None: not known."""
        ...


class UnmeasuredCurve:
    """A curve without recorded seconds, endless unless it sets a length."""

    length: int | None = None

    def seconds(self, first: int, last: int) -> Sequence[float] | None:
        return None


class BareSource:
    """A source without defaults for the job."""

    mode: Mode | None = None
    space: Space | None = None
    table: Sequence[Configuration] | None = None
    longest: int | None = None

    def profile(self) -> Profile | None:
        return None


class UnknownCurve(UnmeasuredCurve):
    def __init__(self, metric: str, value: float) -> None:
        self._row = {metric: value}

    def rows(self, first: int, last: int) -> Sequence[Row]:
        return [self._row] * (last - first + 1)


class UnknownSource(BareSource):
    """For quotes of policies that decide by metrics, which are not known beforehand."""

    def __init__(self, metric: str) -> None:
        self.metric = metric

    def curve(self, config: Configuration, seed: tuple[int, int]) -> UnknownCurve:
        return UnknownCurve(self.metric, random.Random(repr(seed)).random())  # noqa: S311


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFile:
    """A file of recorded curves. None: found by the rules for such files.

    `task`: which of several tasks; `parameters`: the hyperparameters; `length`: the array with the number of
    iterations of each configuration.
    """

    path: str
    task: str | int | None = None
    parameters: tuple[str, ...] | None = None
    length: str | None = None


Reference = str | CurveFile | Function


def located(reference: Reference, folder: Path) -> Reference:
    """The same reference with its path, if any, relative to the working folder instead of `folder`."""
    if isinstance(reference, CurveFile):
        return replace(reference, path=str(folder / reference.path))
    if not isinstance(reference, str):
        return reference
    path, colon, name = reference.rpartition(":")
    if reference.endswith(CURVE_SUFFIXES):
        return str(folder / reference)
    return f"{folder / path}{colon}{name}" if path.endswith(".py") else reference


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperSchedCurve(UnmeasuredCurve):
    b0: float
    b1: float
    b2: float

    def rows(self, first: int, last: int) -> Sequence[Row]:
        # Not numpy: leases of 1 to 30 iterations would take 2 to 9 times as long, 500 only a quarter less.
        slope, offset, top = 0.01 * self.b0, 0.1 * self.b1 + 0.5, 1.0 - 0.005 * self.b2
        return [{_METRIC: top - 0.5 / (slope * k + offset)} for k in range(first, last + 1)]


class HyperSchedFunction(BareSource):
    """Its space draws `b0` by its rank, a uniform number, because no range of a space is exponential.

    A job may search over `b0`, `b1` and `b2` themselves instead.
    """

    metric = _METRIC
    mode = Mode.MAX
    longest = 500
    space = parse_space({name: {"float": [0.0, 1.0]} for name in ("b0_rank", "b1", "b2")})

    def curve(self, config: Configuration, seed: tuple[int, int]) -> HyperSchedCurve:
        b0 = _at_rank(_number(config, "b0_rank")) if "b0_rank" in config else _number(config, "b0")
        return HyperSchedCurve(b0=b0, b1=_number(config, "b1"), b2=_number(config, "b2"))


def _at_rank(rank: float) -> float:
    """The quantile of the exponential distribution, up to the best of ten thousand: at rank 1 it is infinite,
    and a model would have learnt everything after one iteration."""
    return -_SCALE * math.log1p(-min(rank, _LAST_RANK))


def _number(config: Configuration, name: str) -> float:
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0.0:
        expected = "b0_rank (or b0), b1 and b2, each a number of 0 or more"
        raise JobError(f"synthetic:hypersched: {name} is {seen(value)}; the configuration needs {expected}")
    return float(value)
