"""That the models travel and the data stay: how the data of a hopping job are cut (Cerebro)."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.errors import InvariantError


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
