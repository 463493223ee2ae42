"""What a simulated run needs to know of a training: how configurations learn, and how long that takes.

A training of which nothing is known yet: every trial gets a random rank that it keeps.

How a job names its trainable, before anything is opened.

The simulated training function of HyperSched (SoCC 2019, section 6).

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
from elastune.model.metric import Mode
from elastune.model.profile import Profile
from elastune.space.parsing import parse_space
from elastune.space.sampler import Configuration
from elastune.space.space import Space
from elastune.wording import seen

Row = Mapping[str, float]


class Curve(Protocol):
    """How one configuration learns. Iterations are counted from 1; both ends of a range are included."""

    @property
    def length(self) -> int | None:
        """The iterations after which training is finished by itself; None: endless, or not known yet."""
        ...

    def rows(self, first: int, last: int) -> Sequence[Row]:
        """The metrics of these iterations, fewer where the curve ends before.

        Asking again gives the same rows, since a trial may lose work and repeat it. NaN is a training that
        diverged. An exception is the user's code that crashed; asking for one iteration after the other then
        tells where.
        """
        ...

    def seconds(self, first: int, last: int) -> Sequence[float] | None:
        """The measured seconds of these iterations on one slot; None: the profile tells."""
        ...


class CurveSource(Protocol):
    """All configurations together. What it says of itself holds where the job says nothing else."""

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
        """All configurations that there are; None: any can be trained."""
        ...

    @property
    def longest(self) -> int | None:
        """The most iterations that make sense to train; None: nobody knows."""
        ...

    def curve(self, config: Configuration, seed: tuple[int, int]) -> Curve:
        """`seed` is the seed of the run and the number of the trial, for curves that are random."""
        ...

    def profile(self) -> Profile | None:
        """What the recorded times tell about the speed; None: nothing is known."""
        ...


class UnknownCurve:
    length: int | None = None

    def __init__(self, metric: str, value: float) -> None:
        self._row = {metric: value}

    def rows(self, first: int, last: int) -> Sequence[Row]:
        return [self._row] * (last - first + 1)

    def seconds(self, first: int, last: int) -> Sequence[float] | None:
        return None


class UnknownSource:
    """For quotes of policies that decide by what they see: what they will see is not known beforehand."""

    mode: Mode | None = None
    space: Space | None = None
    table: Sequence[Configuration] | None = None
    longest: int | None = None

    def __init__(self, metric: str) -> None:
        self.metric = metric

    def curve(self, config: Configuration, seed: tuple[int, int]) -> UnknownCurve:
        return UnknownCurve(self.metric, random.Random(repr(seed)).random())  # noqa: S311

    def profile(self) -> Profile | None:
        return None


CURVE_SUFFIXES = (".npz", ".parquet")

Function = Callable[..., object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFile:
    """A file of recorded curves. What is None is found by the rules for such files.

    `task` is the one of several tasks; `parameters` are the hyperparameters; `length` is the array that holds
    the number of iterations of each configuration.
    """

    path: str
    task: str | int | None = None
    parameters: tuple[str, ...] | None = None
    length: str | None = None


Reference = str | CurveFile | Function


def located(reference: Reference, folder: Path) -> Reference:
    """The same reference with its path, if it has one, seen from the working folder instead of `folder`."""
    if isinstance(reference, CurveFile):
        return replace(reference, path=str(folder / reference.path))
    if not isinstance(reference, str):
        return reference
    path, colon, name = reference.rpartition(":")
    if reference.endswith(CURVE_SUFFIXES):
        return str(folder / reference)
    return f"{folder / path}{colon}{name}" if path.endswith(".py") else reference


_SCALE = 0.1
_LAST_RANK = 0.9999
_METRIC = "score"


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperSchedCurve:
    b0: float
    b1: float
    b2: float

    @property
    def length(self) -> None:
        return None

    def rows(self, first: int, last: int) -> Sequence[Row]:
        # A loop on purpose: with numpy, leases of 1 to 30 iterations take 2 to 9 times as long, and 500 only
        # a quarter less.
        slope, offset, top = 0.01 * self.b0, 0.1 * self.b1 + 0.5, 1.0 - 0.005 * self.b2
        return [{_METRIC: top - 0.5 / (slope * k + offset)} for k in range(first, last + 1)]

    def seconds(self, first: int, last: int) -> None:
        return None


class HyperSchedFunction:
    """Its own space draws `b0` through its rank: a uniform number, as no range of a space is exponential.

    A job may search over `b0`, `b1` and `b2` themselves instead.
    """

    metric = _METRIC
    mode = Mode.MAX
    table = None
    longest = 500
    space: Space = parse_space({name: {"float": [0.0, 1.0]} for name in ("b0_rank", "b1", "b2")})

    def curve(self, config: Configuration, seed: tuple[int, int]) -> HyperSchedCurve:
        b0 = _at_rank(_number(config, "b0_rank")) if "b0_rank" in config else _number(config, "b0")
        return HyperSchedCurve(b0=b0, b1=_number(config, "b1"), b2=_number(config, "b2"))

    def profile(self) -> None:
        return None


def _at_rank(rank: float) -> float:
    """The quantile of the exponential distribution, up to the best of ten thousand: the last one is infinite,
    and whoever clips a rank to 1 would find a model that has learnt everything after one iteration."""
    return -_SCALE * math.log1p(-min(rank, _LAST_RANK))


def _number(config: Configuration, name: str) -> float:
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0.0:
        expected = "b0_rank (or b0), b1 and b2, each a number of 0 or more"
        raise JobError(f"synthetic:hypersched: {name} is {seen(value)}; the configuration needs {expected}")
    return float(value)
