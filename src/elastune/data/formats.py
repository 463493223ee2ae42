"""The kinds of files that are known: by suffix, or by an entry point of another package.

A kind says how to see the columns and rows of a file without its data, how to read all of it, how to map it
into memory, and how to go through it block by block. All partitions must have the same columns. Other
packages add kinds under the entry point group `elastune.formats`: the name is the suffix (`.tfrecord`), the
value a `Format`, or a function that returns one.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import numpy as np

from elastune.data import arrow_files, hdf5_files, image_files, numpy_files
from elastune.data.file_contents import FileContents
from elastune.data.files import file_errors, is_url
from elastune.errors import JobError
from elastune.wording import several, without_secrets

GROUP = "elastune.formats"
FOLDER = "a folder of images"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`outline` reads the headers of a file, `read` its arrays.

    `map` returns the same arrays without reading them, or None if this file has another layout than memory.
    `blocks(path, rows)` yields dicts of arrays with at most so many rows each.
    """

    name: str
    outline: Callable[[str], FileContents]
    read: Callable[[str], Any]
    map: Callable[[str], Any] | None = None
    blocks: Callable[[str, int], Iterator[Mapping[str, Any]]] | None = None


_HDF5 = Format(
    name="HDF5",
    outline=hdf5_files.outline_hdf5,
    read=hdf5_files.read_hdf5,
    map=hdf5_files.map_hdf5,
    blocks=hdf5_files.blocks_of_hdf5,
)
FORMATS: Mapping[str, Format] = {
    ".npz": Format(
        name="npz", outline=numpy_files.outline_npz, read=numpy_files.read_npz, map=numpy_files.map_npz
    ),
    ".npy": Format(
        name="npy", outline=numpy_files.outline_npy, read=numpy_files.read_npy, map=numpy_files.map_npy
    ),
    ".csv": Format(
        name="csv",
        outline=arrow_files.outline_csv,
        read=arrow_files.read_csv,
        blocks=arrow_files.blocks_of_csv,
    ),
    ".parquet": Format(
        name="Parquet",
        outline=arrow_files.outline_parquet,
        read=arrow_files.read_parquet,
        blocks=arrow_files.blocks_of_parquet,
    ),
    ".h5": _HDF5,
    ".hdf5": _HDF5,
}
_IMAGES = Format(
    name=FOLDER,
    outline=image_files.outline_images,
    read=image_files.read_images,
    map=image_files.read_images,
    blocks=image_files.blocks_of_images,
)


def suffix_of(path: str) -> str:
    if not is_url(path) and Path(path).is_dir():
        return FOLDER
    name = path.rsplit("/", 1)[-1]
    return f".{name.rsplit('.', 1)[1].lower()}" if "." in name else ""


@functools.cache
def _added() -> Mapping[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=GROUP)}


def format_of(path: str) -> Format:
    suffix = suffix_of(path)
    if suffix == FOLDER:
        return _IMAGES
    if suffix in FORMATS:
        return FORMATS[suffix]
    if suffix in _added():
        return _open(_added()[suffix])
    known = several([*FORMATS, *_added()])
    raise JobError(
        f"{without_secrets(path)}: this is no {known} file; expected one of them, or a `reader`: a function "
        "of yours that takes the path of a file and returns its data"
    )


def _open(point: EntryPoint) -> Format:
    try:
        found = point.load()
        made = found() if callable(found) and not isinstance(found, Format) else found
    except Exception as error:
        raise JobError(
            f"the format {point.name} of {point.value} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Format):
        raise JobError(
            f"the format {point.name} of {point.value} is a {type(made).__name__}; expected an "
            "elastune.data.formats.Format"
        )
    return made


def outline(path: str) -> FileContents:
    with _named_errors(path) as known:
        found = known.outline(path)
    if not found.rows:
        raise JobError(f"{without_secrets(path)}: there are no rows in it; leave the file out")
    return found


def read(path: str) -> Any:
    with _named_errors(path) as known:
        return known.read(path)


def map_file(path: str) -> Any | None:
    """The data without reading them; None: this file cannot be mapped."""
    with _named_errors(path) as known:
        return None if known.map is None else known.map(path)


def blocks(path: str, rows: int) -> Iterator[Mapping[str, Any]]:
    """All rows in order, at most so many at once; unnamed arrays have numpy's names."""
    with _named_errors(path) as known:
        if known.blocks is not None:
            yield from known.blocks(path, rows)
            return
        whole = known.map(path) if known.map is not None else None
        columns = named(known.read(path) if whole is None else whole)
        for start in range(0, len(next(iter(columns.values()))), rows):
            yield {name: array[start : start + rows] for name, array in columns.items()}


def named(data: Any) -> Mapping[str, Any]:
    if isinstance(data, Mapping):
        return data
    if isinstance(data, tuple):
        return dict(zip(numpy_files.numbered(len(data)), data, strict=True))
    return {numpy_files.SINGLE: np.asarray(data)}


@contextlib.contextmanager
def _named_errors(path: str) -> Iterator[Format]:
    """The format of a file; errors in the block name the file."""
    known = format_of(path)
    with file_errors(path, f"read as {known.name}"):
        try:
            yield known
        except JobError as error:
            raise JobError(f"{without_secrets(path)}: {error}") from None
