"""The simulated training function of HyperSched (SoCC 2019, section 6).

    Score(k) = (2 - (1 / (0.01 b0 k + 0.1 b1 + 0.5) + 0.01 b2)) / 2

after k iterations, with b0 exponential of scale 0.1 and b1, b2 uniform on [0, 1]; there is no noise. The
paper takes 0.1 s per iteration at one slot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from elastune.errors import JobError
from elastune.space import Configuration, Space, parse_space
from elastune.spec import Mode
from elastune.trainables.protocol import Row
from elastune.wording import seen

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
