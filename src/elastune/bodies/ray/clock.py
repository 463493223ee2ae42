"""The run's clock, which stands still while the driver is down, and the machine's, which does not."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(slots=True)
class RunClock:
    """`origin` is the monotonic time at which the run's clock showed 0."""

    origin: float

    @classmethod
    def starting_at(cls, now_s: float = 0.0) -> RunClock:
        return cls(time.monotonic() - now_s)

    def restart(self, now_s: float = 0.0) -> None:
        """What has passed so far does not count: the cluster was being started."""
        self.origin = time.monotonic() - now_s

    def __call__(self) -> float:
        return time.monotonic() - self.origin

    def of(self, monotonic: float) -> float:
        return monotonic - self.origin

    def monotonic(self, at_s: float) -> float:
        return at_s + self.origin
