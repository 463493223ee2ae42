"""HDF5: every dataset right in the file is a column. Needs h5py, an extra.

Uncompressed data in one piece are mapped, so that partitions may be larger than memory.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from elastune.data.file_contents import FileContents
from elastune.data.files import is_url, open_file
from elastune.data.numpy_files import outline_arrays, protected
from elastune.errors import JobError


def outline_hdf5(path: str) -> FileContents:
    with _columns(path) as columns:
        return outline_arrays({name: (each.shape, each.dtype) for name, each in columns.items()})


def read_hdf5(path: str) -> dict[str, Any]:
    with _columns(path) as columns:
        return {name: protected(np.asarray(each[...])) for name, each in columns.items()}


def map_hdf5(path: str) -> dict[str, Any] | None:
    """None: a column is compressed or in chunks."""
    if is_url(path):
        return None
    with _columns(path) as columns:
        places = {name: each.id.get_offset() for name, each in columns.items()}
        if None in places.values():
            return None
        return {
            name: np.memmap(path, each.dtype, "r", offset=places[name], shape=each.shape)
            for name, each in columns.items()
        }


def blocks_of_hdf5(path: str, rows: int) -> Iterator[dict[str, Any]]:
    with _columns(path) as columns:
        count = min(each.shape[0] for each in columns.values())
        for start in range(0, count, rows):
            yield {name: np.asarray(each[start : start + rows]) for name, each in columns.items()}


@contextlib.contextmanager
def _columns(path: str) -> Iterator[dict[str, Any]]:
    try:
        h5py = importlib.import_module("h5py")
    except ImportError:
        raise JobError("reading HDF5 needs h5py; pip install 'elastune[hdf5]'") from None
    with open_file(path) as source, h5py.File(source, "r") as file:
        columns = {name: each for name, each in file.items() if isinstance(each, h5py.Dataset)}
        if not columns:
            inside = ", ".join(file) or "nothing"
            raise JobError(
                f"there are no datasets right in it, only {inside}; expected a dataset for each column, or a "
                "`reader` of yours that opens the groups"
            )
        yield columns
