"""What one worker process holds of a dataset: loaded once, kept while there is room."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from elastune.data.amounts import format_bytes, measure
from elastune.data.dataset import Dataset, Partition
from elastune.data.readers import Reader, open_reader
from elastune.data.reading import read_partition
from elastune.data.spilling import spill
from elastune.errors import JobError
from elastune.wording import several


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """`bytes` is what the data take; `load_s` how long this taking took, 0 if they were there."""

    data: Any
    rows: int
    bytes: int
    load_s: float
    is_spilled: bool = False


class _Key(NamedTuple):
    validation: bool
    number: int

    def __str__(self) -> str:
        return f"validation {self.number}" if self.validation else str(self.number)


class Shelf:
    """With a limit, partitions that are not to be kept make room, the one used longest ago first.

    Where those to be kept do not fit, the newcomer goes to files in `spill`, or there is an error. While it
    is being loaded, it is in memory beyond the limit.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        limit_bytes: int | None = None,
        spill: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.loaded_bytes = 0
        """Read from the source so far."""
        self.spilled_bytes = 0
        """Written to `spill` so far."""
        self._dataset = dataset
        self._limit = limit_bytes
        self._spill = spill
        self._clock = clock
        self._kept: frozenset[_Key] | None = None
        self._sizes: dict[_Key, int] = {}
        self._held: dict[_Key, Loaded] = {}  # the one used last comes last

    @property
    def held_bytes(self) -> int:
        """In memory; what was spilled is not."""
        return sum(loaded.bytes for loaded in self._held.values() if not loaded.is_spilled)

    def keep(self, training: Collection[int], validation: Collection[int] = ()) -> None:
        """Those that this worker will need again; before the first call, all. Nothing is dropped yet."""
        wanted = [_Key(validation=False, number=number) for number in training]
        wanted += [_Key(validation=True, number=number) for number in validation]
        self._kept = frozenset(wanted)

    def take(self, number: int, validation: bool = False) -> Loaded:
        """The data of one partition, from memory or from the source."""
        key = _Key(validation=validation, number=number)
        loaded = self._held.pop(key, None)
        if loaded is None:
            began_s = self._clock()
            fresh = self._load(key, self._dataset.partition(number, validation=validation))
            loaded = replace(fresh, load_s=self._clock() - began_s)
        self._held[key] = replace(loaded, load_s=0.0)
        return loaded

    def _load(self, key: _Key, partition: Partition) -> Loaded:
        self._make_room(self._expected(key, partition))
        data, rows = read_partition(partition, self._reader)
        size = self._sizes[key] = measure(data)
        self.loaded_bytes += partition.bytes or size
        is_spilled = not self._make_room(size)
        if is_spilled:
            data = self._spilled(key, data, size)
        return Loaded(data=data, rows=rows, bytes=size, load_s=0.0, is_spilled=is_spilled)

    def _expected(self, key: _Key, partition: Partition) -> int:
        """What it took the last time, or as much for its files as others took for theirs."""
        if key in self._sizes or not self.loaded_bytes:
            return self._sizes.get(key, partition.bytes)
        others = [self._dataset.partition(each.number, validation=each.validation) for each in self._sizes]
        files = sum(other.bytes for other in others) or 1
        return partition.bytes * sum(self._sizes.values()) // files

    def _make_room(self, size: int) -> bool:
        """Whether there is room for so many bytes more; only what need not be kept is dropped."""
        if self._limit is None:
            return True
        for key in self._droppable():
            if self.held_bytes + size <= self._limit:
                break
            del self._held[key]
        return self.held_bytes + size <= self._limit

    def _droppable(self) -> list[_Key]:
        kept = self._held.keys() if self._kept is None else self._kept
        return [key for key, loaded in self._held.items() if key not in kept and not loaded.is_spilled]

    def _spilled(self, key: _Key, data: Any, size: int) -> Any:
        reason = ""
        if self._spill is not None:
            try:
                mapped = spill(data, self._spill)
            except JobError as error:
                reason = f"; {error}"
            else:
                self.spilled_bytes += size
                return mapped
        held = several(str(each) for each, loaded in self._held.items() if not loaded.is_spilled)
        advice = "make more partitions, add workers, so that each holds fewer, or raise data.memory"
        raise JobError(
            f"partition {key} takes {format_bytes(size)} of memory; the limit is "
            f"{format_bytes(self._limit or 0)}, and {format_bytes(self.held_bytes)} of it are held "
            f"(partitions {held}){reason}; {advice}"
            + (", or name a folder for the rest: data.spill" if self._spill is None else "")
        )

    @cached_property
    def _reader(self) -> Reader | None:
        return open_reader(self._dataset)
