"""The partitions of a hopping job (Cerebro), and whether its trials hop or train together, one by one on all
workers.

The planner and the core call the same functions for each epoch, so that runs follow their quotes; the mode of
a stage may change as trials leave it. Times are in units of T, the time of one epoch of one trial on one
worker. Hopping is an open shop (Cerebro section 5): an epoch takes as long as its longest trial or its
busiest worker, whichever is more; equal trials have a schedule that takes no longer. Cerebro's appendix D
advises to train together with fewer trials than half the partitions; here the measured speed-up decides. If
there is none, the run measures it when one trial is left, which then costs no other trial anything.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from elastune.errors import InvariantError
from elastune.hopping.epoch import PartitionId
from elastune.hopping.schedulers import DEFAULT_SCHEDULER
from elastune.model.profile import Speedup


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTerms:
    """`rows` of each partition, or another measure of its work.

    Partitions of the validation data are numbered after those of the training data. `hosts` names the nodes
    that can read a partition; all nodes can read those left out.
    """

    rows: tuple[float, ...]
    validation_rows: tuple[float, ...] = ()
    replicas: int = 1
    scheduler: str = DEFAULT_SCHEDULER
    hosts: tuple[tuple[int, frozenset[str]], ...] = ()
    most_per_worker: int | None = None  # training partitions that fit into one worker's memory; None: all
    evaluation_share: float = 0.0  # the part of an iteration that is evaluation, for simulations
    overlap: bool = False  # a trial that is through with its epoch begins the next before others are

    def __post_init__(self) -> None:
        if not self.rows or min(*self.rows, *self.validation_rows, 1.0) <= 0:
            raise InvariantError(f"rows must be positive, and at least one partition must exist: {self}")

    @property
    def partitions(self) -> int:
        return len(self.rows)

    @property
    def least_workers(self) -> int:
        return _least_workers(self)

    @property
    def visits(self) -> int:
        """Of one trial in one iteration."""
        return len(self.rows) + len(self.validation_rows)

    def numbers(self, *, validation: bool) -> tuple[PartitionId, ...]:
        first, count = (len(self.rows), len(self.validation_rows)) if validation else (0, len(self.rows))
        return tuple(PartitionId(number) for number in range(first, first + count))

    def sizes(self, *, validation: bool) -> dict[PartitionId, float]:
        """Relative to their mean."""
        rows = self.validation_rows if validation else self.rows
        mean = sum(rows) / len(rows) if rows else 1.0
        numbers = self.numbers(validation=validation)
        return {number: each / mean for number, each in zip(numbers, rows, strict=True)}

    def size(self, partition: int) -> float:
        return self.sizes(validation=self.is_validation(partition))[PartitionId(partition)]

    def is_validation(self, partition: int) -> bool:
        return partition >= len(self.rows)

    def part_of_iteration(self, partition: int) -> float:
        """The share of an iteration's work that is done in one visit."""
        if partition < len(self.rows):
            return (1.0 - self._evaluation) * self.rows[partition] / sum(self.rows)
        return self._evaluation * self.validation_rows[partition - len(self.rows)] / sum(self.validation_rows)

    @property
    def _evaluation(self) -> float:
        return self.evaluation_share if self.validation_rows else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hopping:
    """An iteration of a trial is one epoch: it visits every partition once, then those for validation."""

    partitions: int  # parts of about equal size, each on `replicas` of the workers
    replicas: int = 1
    validation: int = 0  # partitions of the validation data
    most_per_worker: int | None = None  # partitions that one worker can hold; None: all
    rows: tuple[float, ...] = ()  # of each partition; empty: all are equal
    validation_rows: tuple[float, ...] = ()
    evaluation_share: float = 0.0  # the part of an epoch that is evaluation
    scheduler: str = DEFAULT_SCHEDULER
    overlap: bool = False  # a trial that is through with its epoch begins the next before others are

    def __post_init__(self) -> None:
        if self.partitions < 1 or self.replicas < 1:
            raise InvariantError(f"hopping needs partitions >= 1 and replicas >= 1, got {self}")

    @property
    def terms(self) -> DataTerms:
        """As a run knows the data; on which machines they are is left out."""
        return DataTerms(
            rows=self.rows or (1.0,) * self.partitions,
            validation_rows=self.validation_rows or (1.0,) * self.validation,
            replicas=self.replicas,
            scheduler=self.scheduler,
            most_per_worker=self.most_per_worker,
            evaluation_share=self.evaluation_share,
            overlap=self.overlap,
        )

    @property
    def visits(self) -> int:
        """Of one trial in one epoch. Each one starts by creating and loading the model."""
        return self.partitions + self.validation

    @property
    def least_workers(self) -> int:
        return _least_workers(self)


def _least_workers(data: DataTerms | Hopping) -> int:
    """The fewest workers that hold all data together."""
    return 1 if data.most_per_worker is None else -(-data.partitions * data.replicas // data.most_per_worker)


class TrainingMode(enum.Enum):
    """How the trials of an epoch share the workers."""

    HOPPING = "hopping"  # every trial on one worker at a time, all at once
    TOGETHER = "together"  # one trial after the other, each data-parallel on all workers


def useful_workers(workers: int, partitions: int, replicas: int = 1) -> int:
    """How many of the workers can hold data: at most one for each copy of a partition."""
    if min(workers, partitions, replicas) < 1:
        raise InvariantError(f"{workers=}, {partitions=}, {replicas=}; expected at least 1 of each")
    return min(workers, partitions * replicas)


def busiest_part(trials: int, workers: int, partitions: int, replicas: int = 1) -> float:
    """The share of all units of an epoch that the busiest worker does.

    The fullest of w workers holds ceil(p r / w) of the p r copies. Without replicas every trial visits each
    of them. With replicas the holders of a partition can share its n units evenly, up to whole units; passing
    work on is often better, but depends on the layout and is not promised.
    """
    copies = min(replicas, workers)
    fullest = -(-partitions * copies // useful_workers(workers, partitions, copies))
    return -(-trials * fullest // copies) / (trials * partitions)


def hopping_share(trials: int, workers: int, partitions: int, replicas: int = 1) -> float:
    """The time of an epoch of equal trials that hop, in units of T."""
    return max(1.0, trials * busiest_part(trials, workers, partitions, replicas))


def together_share(trials: int, workers: int, speedup: Speedup) -> float:
    """The time of an epoch if each of the trials in turn has all workers, in units of T."""
    return trials / speedup.at(workers)


def measured_speedup(speedup: Speedup, workers: int) -> float | None:
    """The speed-up on all workers for `choose_manner`; None if only one slot was measured."""
    return speedup.at(workers) if speedup.largest > 1 else None


def gang_size(workers: int, partitions: int) -> int:
    """How many of the workers train one trial together, if each holds its part of the partitions.

    All members take their partitions in step, one each at a time; what is left over in the end is read by all
    of them. If that is more than what the workers with fewer partitions hold, those do not take part.
    """
    each, more = divmod(partitions, workers)
    return more if each * (workers - more) < more and 2 * more > workers else min(workers, partitions)


def choose_manner(
    trials: int,
    workers: int,
    partitions: int,
    speedup_at: float | None,
    *,
    replicas: int = 1,
    most_slots: int | None = None,
) -> TrainingMode:
    """How `trials` trials train for one epoch.

    `speedup_at` is the speed-up of one trial on `gang_size` workers; None if it was not measured: then trials
    hop. A trial that may not have as many slots (`most_slots`) hops, too.
    """
    gang = gang_size(workers, partitions)
    if gang == 1 or speedup_at is None or (most_slots is not None and most_slots < gang):
        return TrainingMode.HOPPING
    is_faster = trials / speedup_at < hopping_share(trials, workers, partitions, replicas)
    return TrainingMode.TOGETHER if is_faster else TrainingMode.HOPPING


# Where no speed-up was measured: the epochs that the last trial must have left for one of them to be a trial
# of all workers. If that is five times as slow as hopping, the others are still most of the time.
PROBE_EPOCHS = 8


def probes(trials: int, epochs: int, workers: int, partitions: int, *, most_slots: int | None = None) -> bool:
    """Whether one epoch trains together to measure the speed-up: no other trial waits, and much is left."""
    gang = gang_size(workers, partitions)
    is_allowed = gang > 1 and (most_slots is None or most_slots >= gang)
    return trials == 1 and epochs >= PROBE_EPOCHS and is_allowed
