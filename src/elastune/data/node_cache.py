"""A folder on the disk of a node for all its workers: copies of remote files, and arrays that can be mapped.

Whichever worker needs something first makes it, under a lock; the others wait and then map the same file, so
the node has one copy on its disk and one in its memory. What is made has its final name only when it is
complete. Names depend on the source's path, size and time of change, so the folder serves many runs. Nothing
is ever deleted from it: that is left to its owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from elastune.data import formats
from elastune.data.files import is_url, open_file
from elastune.data.numpy_files import shaped
from elastune.errors import ExecutionError, JobError
from elastune.wording import without_secrets

_COPIED_AT_ONCE = 2**23
_ROWS_AT_ONCE = 10_000
_NAMES = "columns.json"


class UnmappableError(JobError):
    """The data are no arrays of numbers."""


@dataclass(frozen=True, slots=True)
class NodeCache:
    folder: str

    def local(self, path: str, stamp: str) -> str:
        """A copy of a remote file; `stamp` changes with its content. A local path stays as it is."""
        if not is_url(path):
            return path

        def copy(into: Path) -> None:
            with open_file(path) as source, into.open("wb") as file:
                shutil.copyfileobj(source, file, _COPIED_AT_ONCE)

        name = path.rsplit("/", 1)[-1]
        return str(self._once(f"{_digest(path, stamp)}-{name}", copy))

    def arrays(self, path: str, stamp: str, rows: int) -> Any:
        """The data of a file, block by block turned into arrays on the disk, which are mapped."""

        def convert(into: Path) -> None:
            into.mkdir()
            write_arrays(into, formats.blocks(path, _ROWS_AT_ONCE), rows)

        return map_arrays(self._once(f"{_digest(path, stamp)}.arrays", convert))

    def _once(self, name: str, make: Callable[[Path], None]) -> Path:
        place = Path(self.folder, name)
        if place.exists():
            return place
        try:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            with _locked(Path(self.folder, f".{name}.lock")):
                if not place.exists():
                    self._make(place, make)
        except OSError as error:
            raise ExecutionError(
                f"the cache {self.folder} cannot be used: {error}; free some space there, or set data.cache "
                "to another folder"
            ) from error
        return place

    @staticmethod
    def _make(place: Path, make: Callable[[Path], None]) -> None:
        """Under another name first; with the lock, what has this name was left by a process that died."""
        beside = place.with_name(f".{place.name}.part")
        _remove(beside)
        try:
            make(beside)
            beside.replace(place)
        finally:
            _remove(beside)


def write_arrays(folder: Path, blocks: Iterator[Mapping[str, Any]], rows: int) -> None:
    """One npy file per column, `rows` long in the end."""
    columns: dict[str, np.memmap[Any, Any]] = {}
    done = 0
    for block in blocks:
        if not columns:
            columns = {
                name: _new_column(folder / f"{number}.npy", name, np.asarray(array), rows)
                for number, (name, array) in enumerate(block.items())
            }
        count = len(next(iter(block.values())))
        if done + count > rows:
            raise JobError(f"it has more than the {rows:,} rows that were counted; was it changed?")
        for name, array in block.items():
            columns[name][done : done + count] = array
        done += count
    if done != rows:
        raise JobError(f"it has {done:,} rows, but {rows:,} were counted; was it changed?")
    for column in columns.values():
        column.flush()
    (folder / _NAMES).write_text(json.dumps(list(columns)), encoding="utf-8")


def _new_column(path: Path, name: str, first: Any, rows: int) -> Any:
    if first.dtype.hasobject:
        raise UnmappableError(
            f"{name} has texts or other objects, which cannot be mapped; expected numbers: leave out "
            "data.cache, or write the texts as numbers"
        )
    shape = (rows, *first.shape[1:])
    return np.lib.format.open_memmap(path, mode="w+", dtype=first.dtype, shape=shape)


def map_arrays(folder: Path) -> Any:
    names = json.loads((folder / _NAMES).read_text(encoding="utf-8"))
    return shaped(
        {name: np.load(folder / f"{number}.npy", mmap_mode="r") for number, name in enumerate(names)}
    )


def _digest(path: str, stamp: str) -> str:
    return hashlib.sha256(f"{without_secrets(path)} {stamp}".encode()).hexdigest()[:24]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The lock ends with the process that holds it, however it ends."""
    with cast("IO[bytes]", path.open("ab")) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
