"""The profile of a training job: latencies and speed-up, and how both are estimated from measurements.

Where the measurements come from is left to others.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from elastune.errors import InvariantError, JobError
from elastune.model.configuration import Configuration
from elastune.model.distributions import Constant, Distribution, LogNormal, is_constant
from elastune.model.speeds import ConfigSpeed, SpeedModel, fit_speeds
from elastune.wording import plural

_NOTHING = Constant(0.0)
# No clock is finer, and the ratio of two means, the speed-up, stays finite.
_LEAST_S = 1e-9
# Fewer configurations do not tell what their hyperparameters do to the speed.
_ENOUGH = 4


@dataclass(frozen=True, slots=True)
class Speedup:
    """Measured points (slots, speed-up); linear between them, flat beyond the last: no unmeasured gain."""

    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        slots = [slot for slot, _ in self.points]
        if not slots or slots[0] != 1 or slots != sorted(set(slots)):
            raise InvariantError(f"speed-up points must start at 1 slot and ascend, got {self.points}")

    @classmethod
    def of(cls, points: Mapping[int, float]) -> Speedup:
        """From a mapping; the speed-up at one slot is 1 by definition and need not be given."""
        return cls(tuple(sorted({1: 1.0, **points}.items())))

    @property
    def largest(self) -> int:
        """Slots at the last measured point."""
        return self.points[-1][0]

    def at(self, slots: int) -> float:
        if slots >= self.largest:
            return self.points[-1][1]
        right = bisect.bisect_right(self.points, (slots, float("inf")))
        (left_slots, left), (right_slots, value) = self.points[right - 1], self.points[right]
        return left + (value - left) * (slots - left_slots) / (right_slots - left_slots)


class TrialSpeed(NamedTuple):
    """What is known of a trial's speed: a log-normal factor, by its mean and coefficient of variation."""

    factor: float
    """How much longer its iterations take than those of the profile."""
    spread: float


ALIKE = TrialSpeed(1.0, 0.0)
"""A trial that is known to be as fast as the profile says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Latencies in seconds; `iteration` at one slot.

    `spread` is the standard deviation of a factor, log-normal with mean 1, that is drawn once per trial:
    configurations differ in speed, and without it the noise of many iterations averages out.
    `transfer_s` is the time of one checkpoint to or from storage, on top of `save` and `startup`.
    `speeds` are single configurations that were measured; `elastune.model.speeds` learns from them how much
    of `spread`, which is that of all configurations, the hyperparameters explain.
    """

    iteration: Distribution
    speedup: Speedup
    spread: float = 0.0
    startup: Distribution = _NOTHING
    save: Distribution = _NOTHING
    sync: Distribution = _NOTHING
    transfer_s: float = 0.0
    speeds: tuple[ConfigSpeed, ...] = ()

    @property
    def spread_factor(self) -> Distribution:
        return LogNormal(1.0, self.spread) if self.spread else Constant(1.0)

    def guess_speeds(
        self, configs: Sequence[Configuration], learned: Sequence[ConfigSpeed] = ()
    ) -> list[TrialSpeed]:
        """What is known of the speed of configurations; `learned`: those that a run has measured itself."""
        speeds = (*self.speeds, *learned)
        model = _learn(speeds) if configs and len(speeds) >= _ENOUGH else None
        if model is None:
            return [TrialSpeed(1.0, self.spread)] * len(configs)
        factors, spreads = model.predict_all(configs)
        return [TrialSpeed(*guess) for guess in zip(factors.tolist(), spreads.tolist(), strict=True)]

    @property
    def is_deterministic(self) -> bool:
        parts = (self.iteration, self.startup, self.save, self.sync)
        return self.spread == 0.0 and all(is_constant(part) for part in parts)


@functools.lru_cache(maxsize=16)
def _learn(speeds: tuple[ConfigSpeed, ...]) -> SpeedModel | None:
    return fit_speeds(speeds)


def fit_profile(
    iteration: Mapping[int, Sequence[float]],
    *,
    startup: Sequence[float] = (0.0,),
    save: Sequence[float] = (0.0,),
    sync: Sequence[float] = (0.0,),
    spread: float = 0.0,
    speeds: Sequence[ConfigSpeed] = (),
) -> Profile:
    """The profile of a job whose iterations on each number of slots took `iteration[slots]` seconds.

    The speed-up at g slots is mean(1) / mean(g). Without measurements on 1 slot it is assumed to be linear up
    to the smallest number of slots that was measured: a plan that uses fewer is too slow rather than too
    fast. The noise is assumed to be relative and the same at every number of slots, so the coefficients of
    variation of all measurements are pooled.
    """
    for slots, latencies in sorted(iteration.items()):
        if slots < 1:
            raise JobError(f"iterations were measured on {slots} slots; expected 1 or more")
        _check(latencies, f"iterations on {plural(slots, 'slot')}", zero_allowed=False)
    for name, latencies in (("startup", startup), ("save", save), ("sync", sync)):
        _check(latencies, name, zero_allowed=True)
    if not iteration:
        raise JobError("no iterations were measured; expected latencies on at least one number of slots")
    smallest = min(iteration)
    base = smallest * fmean(iteration[smallest])
    return Profile(
        iteration=_latency(base, pooled_variation(list(iteration.values()))),
        speedup=Speedup.of({slots: base / fmean(seen) for slots, seen in iteration.items()}),
        spread=spread,
        startup=fit_latency(startup),
        save=fit_latency(save),
        sync=fit_latency(sync),
        speeds=tuple(speeds),
    )


def fit_latency(latencies: Sequence[float]) -> Distribution:
    """A log-normal latency with the mean and variation of the measured ones; constant without noise."""
    return _latency(fmean(latencies), pooled_variation([latencies]))


def pooled_variation(groups: Sequence[Sequence[float]]) -> float:
    """The root of the mean squared coefficient of variation, each group weighted by its number of values.

    Variances are those of samples (n - 1): with few values, dividing by n would promise too much. A group of
    one value has no variance and does not count.
    """
    large = [group for group in groups if len(group) > 1]
    if all(min(group) == max(group) for group in large):
        return 0.0
    squares = math.fsum(len(group) * _squared_variation(group) for group in large)
    return math.sqrt(squares / sum(len(group) for group in large))


def _squared_variation(group: Sequence[float]) -> float:
    if min(group) == max(group):
        return 0.0
    mean = fmean(group)
    return math.fsum((value / mean - 1.0) ** 2 for value in group) / (len(group) - 1)


def _latency(mean: float, variation: float) -> Distribution:
    return LogNormal(mean, mean * variation) if variation else Constant(mean)


def _check(latencies: Sequence[float], name: str, *, zero_allowed: bool) -> None:
    if not latencies:
        raise JobError(f"{name}: the list is empty; expected at least one measured value")
    for position, seconds in enumerate(latencies, start=1):
        if not math.isfinite(seconds) or seconds < (0.0 if zero_allowed else _LEAST_S):
            least = "0 or more" if zero_allowed else "more than 0"
            raise JobError(f"{name}: value {position} is {seconds:g}; expected seconds, {least}")
