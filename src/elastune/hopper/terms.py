"""The data of a hopping job as the core knows them: how many partitions, how large, and who may hold them."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.errors import InvariantError
from elastune.hopper.epoch import PartitionId
from elastune.hopper.schedulers import DEFAULT_SCHEDULER


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
