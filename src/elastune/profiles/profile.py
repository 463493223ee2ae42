"""What was measured about a training job."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.profiles.distributions import Constant, Distribution, LogNormal, is_constant
from elastune.profiles.speedup import Speedup

_NOTHING = Constant(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Latencies in seconds; `iteration` at one slot.

    `spread` is the standard deviation of a factor, log-normal with mean 1, that is drawn once per trial
    and stage: configurations differ in speed, and without it the noise of many iterations averages out.
    `transfer_s` is how long one checkpoint takes to or from storage, on top of `save` and `startup`.
    """

    iteration: Distribution
    speedup: Speedup
    spread: float = 0.0
    startup: Distribution = _NOTHING
    save: Distribution = _NOTHING
    sync: Distribution = _NOTHING
    transfer_s: float = 0.0

    @property
    def spread_factor(self) -> Distribution:
        return LogNormal(1.0, self.spread) if self.spread else Constant(1.0)

    @property
    def is_deterministic(self) -> bool:
        parts = (self.iteration, self.startup, self.save, self.sync)
        return self.spread == 0.0 and all(is_constant(part) for part in parts)
