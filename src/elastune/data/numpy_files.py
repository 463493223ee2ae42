"""Numpy's files: their headers, their arrays, read or mapped, and npz files whose arrays can be mapped.

`np.savez(file, x=..., y=...)` gives a dict of arrays, `np.savez(file, x, y)` a tuple of them; a file with
nothing but `array` is that array. Objects in numpy files are not read: unpickling runs code. An array can be
mapped if it lies in the file as in memory: not compressed, and at an address that fits its type. That is so
in npy files and in what `NpzWriter` writes, not in what numpy's `savez` writes.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from elastune.data.file_contents import FileContents
from elastune.data.files import HEADER_PIECE, is_url, open_file
from elastune.errors import JobError
from elastune.wording import several

SINGLE = "array"
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_ALIGNED = 64
_LOCAL_HEADER = 30
_NAME_AND_EXTRA = struct.Struct("<HH")
# Of every member, as Python writes it for files that may become large.
_ZIP64_BYTES = 20
# An extra field that other programs skip; Android's tools align archives with it.
_PADDING = 0xD935


def numbered(count: int) -> tuple[str, ...]:
    """Numpy's names for arrays without names."""
    return tuple(f"arr_{number}" for number in range(count))


def is_unnamed(names: Iterable[str]) -> bool:
    """Whether these names stand for a tuple or a single array."""
    given = set(names)
    return given in (set(numbered(len(given))), {SINGLE})


def shaped(arrays: Mapping[str, Any]) -> Any:
    """A dict, a tuple or an array, as the names say."""
    if not is_unnamed(arrays):
        return dict(arrays)
    return arrays[SINGLE] if SINGLE in arrays else tuple(arrays[name] for name in numbered(len(arrays)))


def outline_npy(path: str) -> FileContents:
    with open_file(path, piece=HEADER_PIECE) as file:
        return outline_arrays({SINGLE: _header(file)[:2]})


def outline_npz(path: str) -> FileContents:
    with open_file(path, piece=HEADER_PIECE) as file, zipfile.ZipFile(file) as archive:
        headers = {}
        for name in archive.namelist():
            with archive.open(name) as member:
                headers[name.removesuffix(".npy")] = _header(member)[:2]
    return outline_arrays(headers)


def read_npy(path: str) -> Any:
    with open_file(path) as file:
        return protected(np.load(file, allow_pickle=False))


def read_npz(path: str) -> Any:
    with open_file(path) as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: protected(archive[name]) for name in archive.files}
    outline_arrays({name: (array.shape, array.dtype) for name, array in arrays.items()})
    return shaped(arrays)


def map_npy(path: str) -> Any | None:
    """None: it cannot be mapped."""
    if is_url(path):
        return None
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array if isinstance(array, np.memmap) else protected(array)


def map_npz(path: str) -> Any | None:
    """None: it cannot be mapped, see above."""
    if is_url(path):
        return None
    with Path(path).open("rb") as file, zipfile.ZipFile(file) as archive:
        arrays = {}
        for info in archive.infolist():
            array = _map_member(path, file, info)
            if array is None:
                return None
            arrays[info.filename.removesuffix(".npy")] = array
    outline_arrays({name: (array.shape, array.dtype) for name, array in arrays.items()})
    return shaped(arrays)


def _map_member(path: str, file: IO[bytes], info: zipfile.ZipInfo) -> Any | None:
    if info.compress_type != zipfile.ZIP_STORED:
        return None
    file.seek(info.header_offset + _LOCAL_HEADER - _NAME_AND_EXTRA.size)
    name, extra = _NAME_AND_EXTRA.unpack(file.read(_NAME_AND_EXTRA.size))
    file.seek(name + extra, 1)
    shape, dtype, is_fortran = _header(file)
    if dtype.hasobject or file.tell() % max(1, dtype.alignment):
        return None
    if not np.prod(shape):
        return protected(np.empty(shape, dtype))
    return np.memmap(path, dtype, "r", offset=file.tell(), shape=shape, order="F" if is_fortran else "C")


class NpzWriter:
    """Writes arrays row by row, one after the other. The same arrays give the same bytes.

    Like numpy's `savez`, which cannot have a column called `file`; here arrays can be mapped.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._archive = zipfile.ZipFile(file, "w")

    def __enter__(self) -> NpzWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def write(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], blocks: Iterable[Any]) -> None:
        """`blocks` are the rows of one array, in order."""
        info = zipfile.ZipInfo(f"{name}.npy")
        info.extra = self._padding(info.filename)
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        with self._archive.open(info, "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for block in blocks:
                whole = np.ascontiguousarray(block, dtype)
                if whole.nbytes:
                    member.write(whole.reshape(-1).view(np.uint8).data)

    def _padding(self, name: str) -> bytes:
        """So that the array, which follows its header, begins at a multiple of 64."""
        if self._archive.fp is None:
            return b""
        start = self._archive.fp.tell() + _LOCAL_HEADER + len(name.encode()) + _ZIP64_BYTES
        count = -(start + _NAME_AND_EXTRA.size) % _ALIGNED
        return _NAME_AND_EXTRA.pack(_PADDING, count) + bytes(count)


def write_npz(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    with NpzWriter(file) as writer:
        for name, array in arrays.items():
            writer.write(name, array.dtype, array.shape, [array])


def protected(array: Any) -> Any:
    """The trials that visit a partition share it, so none may change it."""
    array.flags.writeable = False
    return array


def is_mapped(array: Any) -> bool:
    """Whether its values are in a file."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise JobError(f"its arrays are of version {version[0]}.{version[1]}; expected 1.0 or 2.0")
    shape, is_fortran, dtype = _HEADERS[version](file)
    return shape, dtype, is_fortran


def outline_arrays(headers: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> FileContents:
    """From shapes and types; raises if they are not columns of a table."""
    if not headers:
        raise JobError("there are no arrays in it")
    if objects := [name for name, (_, dtype) in headers.items() if dtype.hasobject]:
        raise JobError(
            f"{several(objects)} has Python objects, which are not read because that can run code; expected "
            "numbers, or texts as a numpy array of texts (astype(str))"
        )
    if bare := [name for name, (shape, _) in headers.items() if not shape]:
        raise JobError(f"{several(bare)} has no dimensions; expected arrays: the first dimension counts rows")
    rows = {name: shape[0] for name, (shape, _) in headers.items()}
    if len(set(rows.values())) > 1:
        lengths = several(f"{name}: {count}" for name, count in rows.items())
        raise JobError(f"its arrays have different lengths ({lengths}); expected as many rows in each")
    columns = {name: kind_of(shape, dtype) for name, (shape, dtype) in headers.items()}
    return FileContents(rows=next(iter(rows.values())), columns=columns)


def kind_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Without the length of texts, which may differ between files."""
    name = "texts" if dtype.kind in "US" else str(dtype)
    return name + "".join(f"[{size}]" for size in shape[1:])
