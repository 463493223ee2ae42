"""The data of a hopping job as the core knows them: how many partitions, how large, and who may hold them.

That the models travel and the data stay: how the data of a hopping job are cut (Cerebro).

Whether the trials of an epoch hop, or train together: one model at a time, on all workers.

The planner and the running core ask the same functions, so that what was quoted is what happens. They are
about one epoch; a stage may change its manner as trials leave it. Times are in units of T, the time that
one trial takes for one epoch on one worker.

Hopping is an open shop (Cerebro section 5): an epoch takes as long as its longest trial or its busiest
worker, whichever is more, and trials that are alike have a schedule that takes no longer. Training together
is what Cerebro's appendix D advises for fewer trials than half the partitions; here the measured speed-up
decides, and that rule only where there is none.
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
    """`rows` of each partition, or whatever else its work is proportional to.

    Partitions of the validation data are numbered after those of the training data. `hosts` names the
    machines that can reach a partition; one that is left out can be had everywhere.
    """

    rows: tuple[float, ...]
    validation_rows: tuple[float, ...] = ()
    replicas: int = 1
    scheduler: str = DEFAULT_SCHEDULER
    hosts: tuple[tuple[int, frozenset[str]], ...] = ()
    most_per_worker: int | None = None
    """Partitions of the training data that fit into the memory of one worker; None: all."""
    evaluation_share: float = 0.0
    """The part of an iteration that is evaluation, for simulations."""

    def __post_init__(self) -> None:
        if not self.rows or min(*self.rows, *self.validation_rows, 1.0) <= 0:
            raise InvariantError(f"partitions need rows: {self}")

    @property
    def partitions(self) -> int:
        return len(self.rows)

    @property
    def least_workers(self) -> int:
        """That hold all data between them."""
        return (
            1 if self.most_per_worker is None else -(-self.partitions * self.replicas // self.most_per_worker)
        )

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
        return self.sizes(validation=partition >= len(self.rows))[PartitionId(partition)]

    def part_of_iteration(self, partition: int) -> float:
        """How much of an iteration's work one visit is."""
        if partition < len(self.rows):
            return (1.0 - self._evaluation) * self.rows[partition] / sum(self.rows)
        return self._evaluation * self.validation_rows[partition - len(self.rows)] / sum(self.validation_rows)

    @property
    def _evaluation(self) -> float:
        return self.evaluation_share if self.validation_rows else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hopping:
    """The data lie in `partitions` parts of about equal size, each on `replicas` of the workers.

    An iteration of a trial is one epoch: it visits every partition once, then those of the validation data.
    """

    partitions: int
    replicas: int = 1
    validation: int = 0
    """Partitions of the validation data."""
    most_per_worker: int | None = None
    """Partitions that one worker can hold; None: all."""

    def __post_init__(self) -> None:
        if self.partitions < 1 or self.replicas < 1:
            raise InvariantError(f"hopping needs partitions >= 1 and replicas >= 1, got {self}")

    @property
    def visits(self) -> int:
        """Of one trial in one epoch. Each has a start: the model is made and loaded."""
        return self.partitions + self.validation

    @property
    def least_workers(self) -> int:
        """That hold all data between them."""
        return (
            1 if self.most_per_worker is None else -(-self.partitions * self.replicas // self.most_per_worker)
        )


class TrainingMode(enum.Enum):
    """How the trials of an epoch share the workers."""

    HOPPING = "hopping"
    """Every trial on one worker at a time, all at once."""
    TOGETHER = "together"
    """One trial after the other, each data-parallel on all workers."""


def useful_workers(workers: int, partitions: int, replicas: int = 1) -> int:
    """How many of the workers can hold data: one for each copy of a partition at most."""
    if min(workers, partitions, replicas) < 1:
        raise InvariantError(f"no epoch has {workers} workers, {partitions} partitions x {replicas} replicas")
    return min(workers, partitions * replicas)


def busiest_part(trials: int, workers: int, partitions: int, replicas: int = 1) -> float:
    """The part of all units of an epoch that the busiest worker has to do.

    The fullest of w workers holds ceil(p r / w) of the p r copies. Without replicas every trial comes to each
    of them. With replicas the holders of a partition can share its n units evenly, up to whole units; often
    they can do better by passing work along, but that depends on who holds what, so it is not promised.
    """
    copies = min(replicas, workers)
    fullest = -(-partitions * copies // useful_workers(workers, partitions, copies))
    return -(-trials * fullest // copies) / (trials * partitions)


def hopping_share(trials: int, workers: int, partitions: int, replicas: int = 1) -> float:
    """What an epoch of so many trials that are alike takes when they hop, in units of T."""
    return max(1.0, trials * busiest_part(trials, workers, partitions, replicas))


def together_share(trials: int, workers: int, speedup: Speedup) -> float:
    """What an epoch takes when each of the trials in turn has all the workers, in units of T."""
    return trials / speedup.at(workers)


def measured_speedup(speedup: Speedup, workers: int) -> float | None:
    """The speed-up on all workers, as `choose_manner` wants it: None if one slot is all that was measured."""
    return speedup.at(workers) if speedup.largest > 1 else None


def choose_manner(
    trials: int,
    workers: int,
    partitions: int,
    speedup_at: float | None,
    *,
    replicas: int = 1,
    most_slots: int | None = None,
) -> TrainingMode:
    """How so many trials train for one epoch.

    `speedup_at` is the speed-up of one trial on all `workers`; None if nothing was measured beyond one
    slot. A trial that may not have as many slots (`most_slots`) cannot train on all of them. Nor can one
    whose workers have unequal data, or some of it twice: they would wait for each other in vain.
    """
    unequal = replicas > 1 or partitions % workers > 0
    if workers == 1 or unequal or (most_slots is not None and most_slots < workers):
        return TrainingMode.HOPPING
    if speedup_at is None:
        few = trials < min(workers, partitions) / 2
    else:
        few = trials / speedup_at < hopping_share(trials, workers, partitions, replicas)
    return TrainingMode.TOGETHER if few else TrainingMode.HOPPING
