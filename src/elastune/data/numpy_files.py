"""Files of numpy. Objects in them are not read: unpickling runs code.

`np.savez(file, x=..., y=...)` gives a dict of arrays, `np.savez(file, x, y)` a tuple of them; a file with
nothing but `array` is that array.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from elastune.data.files import open_file
from elastune.data.outline import Outline
from elastune.errors import JobError
from elastune.wording import several

SINGLE = "array"
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def numbered(count: int) -> tuple[str, ...]:
    """The names that numpy gives to arrays without names."""
    return tuple(f"arr_{number}" for number in range(count))


def is_unnamed(names: Iterable[str]) -> bool:
    """Whether these names stand for a tuple or a single array."""
    given = set(names)
    return given in (set(numbered(len(given))), {SINGLE})


def outline_npy(path: str) -> Outline:
    with open_file(path) as file:
        return _outline({SINGLE: _header(file)})


def outline_npz(path: str) -> Outline:
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        headers = {}
        for name in archive.namelist():
            with archive.open(name) as member:
                headers[name.removesuffix(".npy")] = _header(member)
    return _outline(headers)


def read_npy(path: str) -> Any:
    with open_file(path) as file:
        array = np.load(file, allow_pickle=False)
    return _protected(array)


def read_npz(path: str) -> Any:
    with open_file(path) as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: _protected(archive[name]) for name in archive.files}
    _outline({name: (array.shape, array.dtype) for name, array in arrays.items()})
    if not is_unnamed(arrays):
        return arrays
    return arrays[SINGLE] if SINGLE in arrays else tuple(arrays[name] for name in numbered(len(arrays)))


def write_npz(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """As numpy's `savez`, which cannot have a column called `file`. The same arrays give the same bytes."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _protected(array: Any) -> Any:
    """Trials that visit a partition share it: what one of them changed, the next would see."""
    array.flags.writeable = False
    return array


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise JobError(f"its arrays are of version {version[0]}.{version[1]}; expected 1.0 or 2.0")
    shape, _, dtype = _HEADERS[version](file)
    return shape, dtype


def _outline(headers: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> Outline:
    if not headers:
        raise JobError("there are no arrays in it")
    if objects := [name for name, (_, dtype) in headers.items() if dtype.hasobject]:
        raise JobError(
            f"{several(objects)} has Python objects, which are not read because that can run code; expected "
            "numbers, or texts as a numpy array of texts (astype(str))"
        )
    if bare := [name for name, (shape, _) in headers.items() if not shape]:
        raise JobError(
            f"{several(bare)} has no dimensions; expected arrays whose first dimension counts rows"
        )
    rows = {name: shape[0] for name, (shape, _) in headers.items()}
    if len(set(rows.values())) > 1:
        lengths = several(f"{name}: {count}" for name, count in rows.items())
        raise JobError(f"its arrays have different lengths ({lengths}); expected as many rows in each")
    columns = {name: _kind(shape, dtype) for name, (shape, dtype) in headers.items()}
    return Outline(rows=next(iter(rows.values())), columns=columns)


def _kind(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Texts may be longer in one file than in another."""
    name = "texts" if dtype.kind in "US" else str(dtype)
    return name + "".join(f"[{size}]" for size in shape[1:])
