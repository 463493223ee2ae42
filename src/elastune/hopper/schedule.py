"""A schedule: who visited what, where and when; how long it all took and how much better it could be."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.hopper.epoch import Unit, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A unit that ran on a worker. A hop at its beginning is part of its time."""

    unit: Unit
    worker: WorkerId
    start_s: float
    end_s: float
    hopped: bool = True
    hop_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Visits in the order in which they began.

    `bound_s` is what no schedule of the same epoch can beat. `cut` are visits that a loss or a failure ended
    before their time; `unfinished` are units that no worker could do any more.
    """

    visits: tuple[Visit, ...]
    bound_s: float
    worker_s: float
    """Seconds that workers were there until the last visit ended, summed over them."""
    cut: tuple[Visit, ...] = ()
    unfinished: tuple[Unit, ...] = ()

    @property
    def makespan_s(self) -> float:
        return max((visit.end_s for visit in self.visits), default=0.0)

    @property
    def gap(self) -> float:
        """How much longer than the bound, as a share of it."""
        return self.makespan_s / self.bound_s - 1.0 if self.bound_s > 0 else 0.0

    @property
    def utilisation(self) -> float:
        """Share of the workers' time spent on visits that count."""
        busy_s = sum(visit.end_s - visit.start_s for visit in self.visits)
        return busy_s / self.worker_s if self.worker_s > 0 else 0.0

    @property
    def hops(self) -> int:
        return sum(visit.hopped for visit in (*self.visits, *self.cut))

    @property
    def hop_bytes(self) -> int:
        return sum(visit.hop_bytes for visit in (*self.visits, *self.cut))
