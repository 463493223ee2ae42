"""The partitions that one worker process holds: loaded once, kept while there is room.

Arrays that do not fit into memory go to files that the process maps: the system keeps what is in use. Also
here: how much memory data take.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from elastune.data.dataset import Dataset, Partition
from elastune.data.numpy_files import is_mapped
from elastune.data.reading import PartitionReader
from elastune.errors import ElastuneError, ExecutionError, JobError, UnreadableError
from elastune.wording import format_bytes, several


def spill(data: Any, folder: str) -> Any:
    """The same data, on disk. The files have no names, so they vanish with the process."""
    if isinstance(data, Mapping):
        return {name: spill(each, folder) for name, each in data.items()}
    if isinstance(data, tuple):
        parts = [spill(each, folder) for each in data]
        return type(data)(*parts) if hasattr(data, "_fields") else tuple(parts)
    if not isinstance(data, np.ndarray) or data.dtype.hasobject:
        kind = "texts or other objects" if isinstance(data, np.ndarray) else f"a {type(data).__name__}"
        raise JobError(f"there is {kind} in it, and only numpy arrays of numbers can be spilled")
    return _mapped(data, folder) if data.size else data


def _mapped(array: Any, folder: str) -> Any:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix="elastune-", suffix=".npy", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                np.save(file, array, allow_pickle=False)
            return np.load(path, mmap_mode="r")
        finally:
            Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise ExecutionError(
            f"data cannot be spilled to {folder}: {error}; free some space there, or set data.spill to "
            "another folder"
        ) from error


_LOOKED_AT = 1000


def measure(data: Any) -> int:
    """Exact for arrays, tensors and data frames; of long lists of objects a part is measured."""
    known: set[int] = set()
    columns = data.values() if isinstance(data, Mapping) else data if isinstance(data, tuple) else (data,)
    return sum(_measure(column, known) for column in columns)


def _measure(value: Any, known: set[int]) -> int:
    if id(value) in known or (isinstance(value, np.ndarray) and is_mapped(value)):
        return 0  # the system keeps of a mapped file what is in use, once for all processes
    known.add(id(value))
    if (usage := getattr(value, "memory_usage", None)) is not None:  # a data frame
        return int(np.sum(usage(deep=True)))
    size = getattr(value, "nbytes", None)  # of arrays and tensors
    own = size if isinstance(size, int) else sys.getsizeof(value, 0)
    return own + _many(_inside(value), known)


def _inside(value: Any) -> Collection[Any]:
    """The objects in it that its own size does not include."""
    if isinstance(value, np.ndarray):
        return list(value.flat) if value.dtype.hasobject else ()
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, type | FunctionType | ModuleType) or hasattr(value, "nbytes"):
        return ()
    return getattr(value, "__dict__", {}).values()


def _many(values: Collection[Any], known: set[int]) -> int:
    if not values:
        return 0
    step = -(-len(values) // _LOOKED_AT)
    looked_at = [_measure(value, known) for value in islice(values, 0, None, step)]
    return round(sum(looked_at) * len(values) / len(looked_at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """`bytes` is the memory that the data take; `load_s` how long loading took, 0 if they were held."""

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


class PartitionCache:
    """With a limit, partitions that need not be kept are dropped, the least recently used first.

    If those to be kept do not fit, the new one goes to files in `spill`, or there is an error. While it is
    loaded, it is in memory beyond the limit. Files that are mapped take no memory of the process.
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
        self._held: dict[_Key, Loaded] = {}  # the most recently used last

    @property
    def held_bytes(self) -> int:
        """In memory, without what was spilled."""
        return sum(loaded.bytes for loaded in self._held.values() if not loaded.is_spilled)

    def keep(self, training: Collection[int], validation: Collection[int] = ()) -> None:
        """Those that this worker will need again; before the first call, all. Drops nothing yet."""
        wanted = ((False, training), (True, validation))
        self._kept = frozenset(_Key(kind, number) for kind, numbers in wanted for number in numbers)

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
        self._make_room(0 if self._dataset.is_mapped else self._expected(key, partition))
        data, rows = self._reader.read(partition, mapped=self._dataset.is_mapped)
        size = self._sizes[key] = measure(data)
        self.loaded_bytes += partition.bytes or size
        is_spilled = not self._make_room(size)
        if is_spilled:
            data = self._spilled(key, data, size)
        return Loaded(data=data, rows=rows, bytes=size, load_s=0.0, is_spilled=is_spilled)

    def _expected(self, key: _Key, partition: Partition) -> int:
        """Its size the last time, or an estimate from its files, as others took for theirs."""
        if key in self._sizes or not self.loaded_bytes:
            return self._sizes.get(key, partition.bytes)
        others = [self._dataset.partition(each.number, validation=each.validation) for each in self._sizes]
        files = sum(other.bytes for other in others) or 1
        return partition.bytes * sum(self._sizes.values()) // files

    def _make_room(self, size: int) -> bool:
        """Whether `size` more bytes fit, after dropping partitions that need not be kept."""
        if self._limit is None:
            return True
        kept = self._held.keys() if self._kept is None else self._kept
        for key in [key for key, held in self._held.items() if key not in kept and not held.is_spilled]:
            if self.held_bytes + size <= self._limit:
                break
            del self._held[key]
        return self.held_bytes + size <= self._limit

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
        advice = "make more partitions, add workers, so that each holds fewer, raise data.memory"
        if not self._dataset.is_mapped:
            advice += ", set data.load: mapped"
        raise JobError(
            f"partition {key} takes {format_bytes(size)} of memory; the limit is "
            f"{format_bytes(self._limit or 0)}, and {format_bytes(self.held_bytes)} of it are held "
            f"(partitions {held}){reason}; {advice}"
            + (", or name a folder for the rest: data.spill" if self._spill is None else "")
        )

    @cached_property
    def _reader(self) -> PartitionReader:
        return PartitionReader.of(self._dataset)


class SlotPartitions:
    """Partitions of the validation data are numbered after those of the training data."""

    def __init__(self, dataset: Dataset, limit_bytes: int | None, spill: str | None) -> None:
        self._training = len(dataset.training)
        self._validation = len(dataset.validation)
        self._dataset = dataset
        self._cache = PartitionCache(dataset, limit_bytes=limit_bytes, spill=spill)
        self.save_s: float | None = None
        """How long the last durable state took to write; None: none was written."""

    def take(self, partition: int, share: Sequence[int]) -> Loaded:
        """The data of one partition; those of the share are kept in memory before others."""
        first = self._training
        self._cache.keep([n for n in share if n < first], [n - first for n in share if n >= first])
        number, validation = (partition, False) if partition < first else (partition - first, True)
        sources = several(self._dataset.partition(number, validation=validation).sources)
        name = f"{'validation ' if validation else ''}partition {number} ({sources})"
        try:
            loaded = self._cache.take(number, validation)
        except ElastuneError as error:
            raise UnreadableError(f"the data cannot be read: {error}") from error
        except Exception as error:  # the user's own reader may raise anything
            problem = f"{name}: {type(error).__name__}: {error}"
            raise UnreadableError(f"the data cannot be read: {problem}") from error
        if not loaded.rows:
            raise UnreadableError(f"{name} has no rows; expected some, leave it out")
        return loaded

    @property
    def evaluates(self) -> bool:
        """There are validation data."""
        return bool(self._validation)

    def is_validation(self, partition: int) -> bool:
        return partition >= self._training

    def is_last_of_training(self, done: int) -> bool:
        """Whether the visit after `done` others is the last before the evaluation."""
        return bool(self._validation) and done + 1 == self._training
