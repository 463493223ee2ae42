"""The data that a slot process holds, in the one numbering that visits use."""

from __future__ import annotations

from collections.abc import Sequence

from elastune.data import Dataset, Loaded, Shelf
from elastune.errors import ElastuneError, UnreadableError
from elastune.wording import several


class Shelves:
    """Partitions of the validation data are numbered after those of the training data."""

    def __init__(self, dataset: Dataset, limit_bytes: int | None, spill: str | None) -> None:
        self._training = len(dataset.training)
        self._validation = len(dataset.validation)
        self._dataset = dataset
        self._shelf = Shelf(dataset, limit_bytes=limit_bytes, spill=spill)
        self.save_s: float | None = None
        """How long the last durable state took to write. None: none was written yet."""

    def take(self, partition: int, share: Sequence[int]) -> Loaded:
        """The data of one partition; those of the share are kept before others."""
        first = self._training
        self._shelf.keep([n for n in share if n < first], [n - first for n in share if n >= first])
        number, validation = (partition, False) if partition < first else (partition - first, True)
        kind = "validation partition" if validation else "partition"
        try:
            loaded = self._shelf.take(number, validation)
        except ElastuneError as error:
            raise UnreadableError(f"the data cannot be read: {error}") from error
        except Exception as error:  # whatever a reader of the user's own raises
            told = f"{kind} {number} ({self._sources(number, validation=validation)})"
            raise UnreadableError(
                f"the data cannot be read: {told}: {type(error).__name__}: {error}"
            ) from error
        if not loaded.rows:
            told = self._sources(number, validation=validation)
            raise UnreadableError(f"{kind} {number} ({told}) has no rows; expected some, leave it out")
        return loaded

    def _sources(self, number: int, *, validation: bool) -> str:
        return several(self._dataset.partition(number, validation=validation).sources)

    @property
    def evaluates(self) -> bool:
        """Whether there are validation data."""
        return bool(self._validation)

    def is_validation(self, partition: int) -> bool:
        return partition >= self._training

    def is_last_of_training(self, done: int) -> bool:
        """Whether the visit after so many others is the last before the evaluation."""
        return bool(self._validation) and done + 1 == self._training
