"""How much faster an iteration is on more slots."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass

from elastune.errors import InvariantError


@dataclass(frozen=True, slots=True)
class Speedup:
    """Measured points (slots, speed-up); linear between them, flat beyond the last one.

    Flat, because an unmeasured gain is not a gain that one can promise.
    """

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
