"""What a scheduler is: asked at every event, it says which units start now, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from elastune.hopper.epoch import Unit, WorkerId
from elastune.hopper.floor import Floor


@dataclass(frozen=True, slots=True)
class Assignment:
    """A unit and the free worker that is to begin it now."""

    unit: Unit
    worker: WorkerId


class Scheduler(Protocol):
    """Looks at the floor, never changes it; the caller starts what it says and tells the floor.

    While units are left that somebody could begin and nothing is underway, at least one has to be named.
    """

    def dispatch(self, floor: Floor) -> tuple[Assignment, ...]:
        """Units to start now, each on a worker of its own. Nothing: wait for the next event."""
        ...
