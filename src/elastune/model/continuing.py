"""How a trial goes on after a pause, on another gang, or after a loss: what a trainable can do decides it."""

from __future__ import annotations

import enum


class Continuing(enum.Enum):
    CHECKPOINT = "checkpoint"  # from its saved state
    REPEATING = "repeating"  # without a state: a new gang trains again from the beginning
    CALLING = "calling"  # every lease is one call from the beginning, and only its last iteration is reported

    def repeated(self, done: int, *, kept: bool) -> int:
        """Iterations that are trained again by a trial that has done so many; `kept`: in its old gang."""
        if self is Continuing.CALLING:
            return done
        return done if self is Continuing.REPEATING and not kept else 0
