"""What happens to units and workers during an epoch. Every event carries its time."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.hopper.epoch import Unit, Worker, WorkerId
from elastune.place import TrialId


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStarted:
    at_s: float
    unit: Unit
    worker: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitEnded:
    at_s: float
    worker: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFailed:
    """The worker is well, the unit did not end: it goes back and runs again from the last checkpoint."""

    at_s: float
    worker: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost:
    """Its unit goes back; its partitions are gone unless others hold them."""

    at_s: float
    worker: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJoined:
    """A new worker, or a lost one that is back, with the partitions that it holds."""

    at_s: float
    worker: Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDropped:
    """A trial was stopped: what it has not visited yet, it need not visit."""

    at_s: float
    trial: TrialId


Event = UnitStarted | UnitEnded | UnitFailed | WorkerLost | WorkerJoined | TrialDropped
