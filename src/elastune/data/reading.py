"""One partition from its files, as the worker gives it to a trial: the pieces joined, rows after rows.

Files are read by format or by the user's function, Cerebro's input_fn: checked here, loaded again in the
workers.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from elastune.data import formats
from elastune.data.dataset import Dataset, Partition
from elastune.data.node_cache import NodeCache, UnmappableError
from elastune.errors import JobError
from elastune.training.batches import open_table
from elastune.training.recipe import load
from elastune.wording import seen, several, without_secrets


def join(pieces: Sequence[Any]) -> Any:
    """A single piece stays as it is."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    if len({type(piece) for piece in pieces}) > 1:
        kinds = several(sorted({type(piece).__name__ for piece in pieces}))
        raise JobError(f"its files gave different things ({kinds}); expected the same kind of each file")
    if isinstance(first, Mapping):
        _check({tuple(piece) for piece in pieces}, "names")
        return {name: join([piece[name] for piece in pieces]) for name in first}
    if isinstance(first, tuple):
        _check({len(piece) for piece in pieces}, "numbers of columns")
        columns = [join(column) for column in zip(*pieces, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)
    if isinstance(first, list):
        return [value for piece in pieces for value in piece]
    return _concatenated(first, pieces)


def _concatenated(first: Any, pieces: Sequence[Any]) -> Any:
    if isinstance(first, np.ndarray):
        return np.concatenate(pieces)
    if (torch := sys.modules.get("torch")) is not None and isinstance(first, torch.Tensor):
        return torch.cat(list(pieces))
    if (pandas := sys.modules.get("pandas")) is not None and isinstance(first, pandas.DataFrame):
        return pandas.concat(pieces, ignore_index=True)
    raise JobError(
        f"its {len(pieces)} files gave a {type(first).__name__} each, which cannot be joined; expected "
        "arrays, tensors, tuples or dicts of them, data frames or lists; or make every file a partition"
    )


def _check(different: set[Any], what: str) -> None:
    if len(different) > 1:
        raise JobError(f"its files have different {what}: {several(map(str, sorted(different)))}")


Reader: TypeAlias = Callable[[str], Any]

_EXPECTED = "a function f(path), or where it is: 'file.py:function' or 'package.module:function'"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedReader:
    """A reader as it is sent: by name, or as bytes."""

    reference: str | None = None
    pickled: bytes | None = None


def pack(reader: str | Reader | None) -> PackedReader:
    """Raises for a wrong name now, not in the workers."""
    if reader is None:
        return PackedReader()
    if isinstance(reader, str):
        home, colon, name = reader.rpartition(":")
        if not (colon and home and name):
            raise JobError(f"reader is {seen(reader)}; expected {_EXPECTED}")
        reference = f"{Path(home).expanduser().absolute()}:{name}" if home.endswith(".py") else reader
        load(reference)
        return PackedReader(reference=reference)
    if not callable(reader):
        raise JobError(f"reader is {seen(reader)}; expected {_EXPECTED}")
    name = getattr(reader, "__qualname__", type(reader).__qualname__)
    return PackedReader(reference=f"{getattr(reader, '__module__', '')}:{name}", pickled=_pickle(reader))


def open_reader(dataset: Dataset) -> Reader | None:
    if dataset.reader_pickled is not None:
        reader: Reader = pickle.loads(dataset.reader_pickled)  # noqa: S301  from our own driver
        return reader
    return None if dataset.reader is None else load(dataset.reader)


def call(reader: Reader, path: str) -> Any:
    """Errors of the user's reader stay as they are, with a note that names the file."""
    try:
        data = reader(path)
    except Exception as error:
        error.add_note(f"in the reader of the data, with {os.fspath(path)}")
        raise
    if data is None:
        raise JobError(f"{path}: the reader returned nothing; expected the data of this file")
    return data


def _pickle(reader: Reader) -> bytes:
    dump: Callable[[object], bytes] = pickle.dumps
    with contextlib.suppress(ImportError):
        import cloudpickle  # noqa: PLC0415  comes with Ray; takes functions of scripts and notebooks, too

        dump = cloudpickle.dumps
    try:
        return dump(reader)
    except Exception as error:
        problem = f"the reader cannot be sent to other processes ({type(error).__name__}: {error})"
        raise JobError(f"{problem}; expected a function of a file: 'file.py:function'") from error


@dataclass(frozen=True, slots=True)
class PartitionReader:
    """Reads files by their format, or by the user's function; remote ones from a copy in the node's cache."""

    function: Reader | None
    cache: NodeCache | None = None

    @classmethod
    def of(cls, dataset: Dataset) -> PartitionReader:
        return cls(open_reader(dataset), None if dataset.cache is None else NodeCache(dataset.cache))

    def read(self, partition: Partition, *, mapped: bool) -> tuple[Any, int]:
        """The data and the number of rows, which must be the registered one."""
        shown = several(map(without_secrets, partition.sources), most=3)
        stamps = partition.modified or ("",) * len(partition.sources)
        pairs = zip(partition.sources, stamps, strict=True)
        pieces = [self._piece(path, stamp, mapped=mapped) for path, stamp in pairs]
        try:
            data = join(pieces)
            rows = _count(data)
        except JobError as error:
            raise JobError(f"partition {partition.number} ({shown}): {error}") from None
        if partition.rows is not None and rows != partition.rows:
            raise JobError(
                f"partition {partition.number} ({shown}) has {rows:,} rows, but had {partition.rows:,} when "
                "the data were registered; a file was changed: start a new run with the data as they are"
            )
        return data, rows

    def _piece(self, path: str, stamp: str, *, mapped: bool) -> Any:
        local = path if self.cache is None else self.cache.local(path, stamp)
        if self.function is not None:
            return call(self.function, local)
        if not mapped:
            return formats.read(local)
        data = formats.map_file(local)
        if data is not None:
            return data
        if self.cache is not None:
            with contextlib.suppress(UnmappableError):
                return self.cache.arrays(local, stamp, formats.outline(local).rows)
        return formats.read(local)


def _count(data: Any) -> int:
    """The weight of the partition's metrics."""
    if isinstance(data, list):
        return len(data)
    try:
        return open_table(data, "cpu").count
    except JobError as error:
        try:
            return len(data)
        except TypeError:
            raise JobError(str(error).replace("worker.batches got", "the reader gave")) from None
