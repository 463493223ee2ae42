"""One epoch of model hopping as plain values: units, workers, events, schedules.

A *unit* is the visit of a trial to a partition. It runs on a worker that holds the partition, without a
break. In an epoch every trial visits every partition once, in any order (Cerebro, sections 3.1 and 5.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NewType

from elastune.errors import InvariantError
from elastune.model.ids import TrialId

WorkerId = NewType("WorkerId", str)
PartitionId = NewType("PartitionId", int)


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    trial: TrialId
    partition: PartitionId


@dataclass(frozen=True, slots=True, kw_only=True)
class HopWorker:
    """Trains one trial at a time on the partitions that it holds."""

    id: WorkerId
    partitions: frozenset[PartitionId]
    unit_s: Mapping[TrialId, float]  # how long each trial trains here on a partition of size 1
    node: str = ""  # models move for free between workers of one node; empty: the worker is alone on its node


@dataclass(frozen=True, slots=True, kw_only=True)
class Underway:
    unit: Unit
    worker: WorkerId
    left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hops:
    """The cost of moving a trial's model to another worker; 0 for trials left out."""

    seconds: Mapping[TrialId, float] = field(default_factory=dict)
    model_bytes: Mapping[TrialId, int] = field(default_factory=dict)
    at: Mapping[TrialId, WorkerId] = field(default_factory=dict)
    """The workers that have a model now. The other models are in the store and have to be fetched, too."""
    new: frozenset[TrialId] = frozenset()
    """Trials without a model: the first visit makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """The work to schedule. In the middle of an epoch, `done` and `underway` say what has happened.

    `sizes` are relative to the partition for which `HopWorker.unit_s` was measured; 1 for those left out.
    A partition may have several holders (replicas), or none: then its units wait for a worker that has it.
    """

    trials: tuple[TrialId, ...]
    partitions: tuple[PartitionId, ...]
    workers: tuple[HopWorker, ...]
    sizes: Mapping[PartitionId, float] = field(default_factory=dict)
    hops: Hops = Hops()
    last_s: Mapping[TrialId, float] = field(default_factory=dict)
    """How much longer the last visit of a trial takes, to save its model; 0 for trials left out."""
    later_s: Mapping[TrialId, float] = field(default_factory=dict)
    """What each trial has to do after these units, where epochs overlap: those with more come first."""
    done: frozenset[Unit] = frozenset()
    underway: tuple[Underway, ...] = ()

    def __post_init__(self) -> None:
        _check_distinct("trial", self.trials)
        _check_distinct("partition", self.partitions)
        _check_distinct("worker", [worker.id for worker in self.workers])
        _check_distinct("busy worker", [each.worker for each in self.underway])
        _check_distinct("trial underway", [each.unit.trial for each in self.underway])
        for worker in self.workers:
            check_worker(worker, self)
        for partition, size in self.sizes.items():
            _check_positive(f"the size of partition {partition}", size)
        workers = {worker.id for worker in self.workers}
        trials, partitions = set(self.trials), set(self.partitions)
        for unit in (*self.done, *(each.unit for each in self.underway)):
            if unit.trial not in trials or unit.partition not in partitions:
                raise InvariantError(f"{unit} is done or underway, but is not a unit of this epoch")
        for trial, at in self.hops.at.items():
            if trial not in trials or at not in workers:
                raise InvariantError(f"the model of trial {trial} is on worker {at}: both must be known")
        for each in self.underway:
            if each.unit in self.done or each.worker not in workers:
                raise InvariantError(f"{each} is underway: it must not be done, and its worker must be known")

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(Unit(trial, partition) for trial in self.trials for partition in self.partitions)

    @property
    def units_left(self) -> tuple[Unit, ...]:
        begun = self.done.union(each.unit for each in self.underway)
        return tuple(unit for unit in self.units if unit not in begun)

    def size(self, partition: PartitionId) -> float:
        return self.sizes.get(partition, 1.0)


def check_worker(worker: HopWorker, epoch: Epoch) -> None:
    """A worker needs a positive time for every trial of the epoch; it may hold other partitions, too."""
    for trial in epoch.trials:
        if trial not in worker.unit_s:
            raise InvariantError(f"worker {worker.id} has no unit time for trial {trial}")
        _check_positive(f"the unit time of trial {trial} on worker {worker.id}", worker.unit_s[trial])


def _check_positive(what: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise InvariantError(f"{what} is {value}, expected a positive number")


def _check_distinct(what: str, ids: Iterable[object]) -> None:
    listed = list(ids)
    if len(set(listed)) < len(listed):
        twice = next(each for each in listed if listed.count(each) > 1)
        raise InvariantError(f"{what} {twice} is named twice")


# What happens to units and workers during an epoch.


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
    """The worker is well but the unit did not end: it runs again from the last checkpoint."""

    at_s: float
    worker: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost:
    """Its unit runs again; its partitions are gone unless others hold them."""

    at_s: float
    worker: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJoined:
    """A new worker, or a lost one that is back."""

    at_s: float
    worker: HopWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDropped:
    """A trial was stopped: its other visits are not needed."""

    at_s: float
    trial: TrialId


Event = UnitStarted | UnitEnded | UnitFailed | WorkerLost | WorkerJoined | TrialDropped


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledVisit:
    """A unit that ran on a worker. A hop at its beginning is part of its time."""

    unit: Unit
    worker: WorkerId
    start_s: float
    end_s: float
    hopped: bool = True
    hop_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Visits in the order in which they began. No schedule of the same epoch is shorter than `bound_s`."""

    visits: tuple[ScheduledVisit, ...]
    bound_s: float
    worker_s: float  # seconds that workers were up until the last visit ended, summed over them
    cut: tuple[ScheduledVisit, ...] = ()  # visits that a loss or a failure ended early
    unfinished: tuple[Unit, ...] = ()  # units for which no worker was left

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
