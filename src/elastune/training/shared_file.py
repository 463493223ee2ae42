"""A value whose arrays and tensors lie in one file, which processes map: they all use the same memory.

    length of the description | description | parts

The length has 8 bytes, little-endian; the description is a pickle of all the rest of the value; arrays and
tensors start at multiples of 64, large ones have pages of their own. A file is complete when it has its name,
and is not changed any more.

Arrays are read-only. Torch has no read-only tensors, so the mapping is private: what is written into a tensor
changes the memory of that process alone, and `SharedMap.written` finds it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import math
import mmap
import pickle
import struct
import sys
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elastune.errors import ExecutionError, JobError
from elastune.wording import format_bytes

_LENGTH = struct.Struct("<Q")
_ALIGNED, _PAGE = 64, 4096
_ARRAYS = (np.ndarray, np.memmap)
_NAME_LENGTH = 32
# Bits of an entry of /proc/self/pagemap: the page is in memory, or swapped out; it is a page of a file.
_PRESENT, _OF_FILE = 0b11 << 62, 1 << 61
_ENTRY_BYTES = 8


class SharedPart(NamedTuple):
    """An array, or a tensor with the name of its type. `offset` counts from the end of the description."""

    dtype: np.dtype[Any] | str
    shape: tuple[int, ...]
    order: str
    offset: int
    bytes: int

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.dtype, str)

    def __str__(self) -> str:
        kind = "tensor" if self.is_tensor else "array"
        return f"the {self.dtype} {kind} of shape {'x'.join(map(str, self.shape)) or '()'}"


class PackedValue:
    """A value, taken apart. `name` is a hash of its content; `rest_bytes`: what is no array or tensor."""

    def __init__(self, value: object) -> None:
        self.parts: list[SharedPart] = []
        self._buffers: list[np.ndarray[Any, Any]] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []
        self._end = 0
        tree = self._take_apart(value)
        self.rest_bytes = len(tree)
        self._description = pickle.dumps((tuple(self.parts), tree))

    @functools.cached_property
    def name(self) -> str:
        digest = hashlib.sha256(self._description)
        for buffer in self._buffers:
            digest.update(buffer.data)
        return digest.hexdigest()[:_NAME_LENGTH]

    def write(self, path: Path) -> None:
        """Other processes see the whole file or none. One process writes it at a time: what a killed one has
        begun is overwritten."""
        unfinished = path.with_name(f".{path.name}.unfinished")
        start = _aligned(_LENGTH.size + len(self._description), _PAGE)
        try:
            with unfinished.open("wb") as file:
                file.write(_LENGTH.pack(len(self._description)) + self._description)
                for part, buffer in zip(self.parts, self._buffers, strict=True):
                    file.seek(start + part.offset)
                    file.write(buffer.data)
                file.truncate(start + self._end)
            unfinished.replace(path)
        except OSError as error:
            raise ExecutionError(
                f"shared data of {format_bytes(self._end)} cannot be written to {path.parent}: "
                f"{error.strerror}; free some space there, or set TMPDIR to a folder with more"
            ) from error
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)

    def _take_apart(self, value: object) -> bytes:
        buffer = io.BytesIO()
        try:
            _pickler_class()(buffer, self).dump(value)
        except (JobError, ExecutionError):
            raise
        except Exception as error:
            raise JobError(
                f"data of {type(value).__name__} cannot be shared: {error}; expected arrays and tensors in "
                "dicts, lists and tuples, with values that can be pickled"
            ) from error
        return buffer.getvalue()

    def number_of(self, value: Any) -> int | None:
        """The number of an array or a tensor; None: it is neither."""
        if type(value) in _ARRAYS:
            return None if value.dtype.hasobject else self._add(value, _array_bytes(value))
        return self._add(value, _tensor_bytes(value)) if _is_dense_tensor(value) else None

    def _add(self, value: Any, found: tuple[np.dtype[Any] | str, str, np.ndarray[Any, Any]]) -> int:
        if id(value) not in self._numbers:
            dtype, order, buffer = found
            self._numbers[id(value)] = len(self.parts)
            self._kept.append(value)  # its id must not be given to another
            unit = _PAGE if len(buffer) >= _PAGE else _ALIGNED
            offset = _aligned(self._end, unit)
            self.parts.append(SharedPart(dtype, tuple(value.shape), order, offset, len(buffer)))
            self._buffers.append(buffer)
            self._end = _aligned(offset + len(buffer), unit)
        return self._numbers[id(value)]


@functools.cache
def _pickler_class() -> Any:
    """One class for all: a class of its own, which is garbage only for the collector, would keep the data."""
    import cloudpickle  # noqa: PLC0415  needed by real runs only

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(self, file: io.BytesIO, packed: PackedValue) -> None:
            super().__init__(file)
            self._packed = packed

        def persistent_id(self, value: Any) -> int | None:
            return self._packed.number_of(value)

    return Pickler


class _Unpickler(pickle.Unpickler):
    def __init__(self, shared: SharedMap, tree: bytes) -> None:
        super().__init__(io.BytesIO(tree))
        self._shared = shared

    def persistent_load(self, number: int) -> Any:
        return self._shared.part(self._shared.parts[number])


def _aligned(offset: int, unit: int) -> int:
    return offset + -offset % unit


def _array_bytes(array: Any) -> tuple[np.dtype[Any], str, np.ndarray[Any, Any]]:
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    flat = np.ascontiguousarray(np.asarray(array).T if order == "F" else array).reshape(-1)
    return array.dtype, order, flat.view(np.uint8) if flat.nbytes else np.empty(0, np.uint8)


def _is_dense_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor:
        return False
    return value.layout is torch.strided and not value.is_quantized


def is_plain(value: Any) -> bool:
    """An array or a tensor that is its elements and no more: no subclass, no lazy operation, no graph."""
    if type(value) in _ARRAYS:
        return True
    return _is_dense_tensor(value) and not (value.requires_grad or value.is_conj() or value.is_neg())


def _tensor_bytes(tensor: Any) -> tuple[str, str, np.ndarray[Any, Any]]:
    torch = sys.modules["torch"]
    if tensor.device.type != "cpu" or tensor.requires_grad:
        found = f"is on {tensor.device}" if tensor.device.type != "cpu" else "requires gradients"
        raise JobError(
            f"a tensor of shape {tuple(tensor.shape)} {found}; expected data in the memory of the CPU: share "
            "tensor.detach().cpu()"
        )
    plain = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    raw = plain.view(torch.uint8).numpy() if plain.numel() else np.empty(0, np.uint8)
    return str(tensor.dtype).removeprefix("torch."), "C", raw


class SharedMap(mmap.mmap):
    """A file of shared data in the memory of this process, as long as an array or a tensor of it lives."""

    path: Path
    parts: tuple[SharedPart, ...]
    address: int
    _tree: bytes
    _start: int

    @classmethod
    def open(cls, path: Path) -> SharedMap:
        known = _maps.get(str(path))
        if known is not None:
            return known
        with path.open("rb") as file:
            opened = cls(file.fileno(), 0, access=mmap.ACCESS_COPY)
        (length,) = _LENGTH.unpack_from(opened)
        opened.path = path
        opened._start = _aligned(_LENGTH.size + length, _PAGE)
        description = opened[_LENGTH.size : _LENGTH.size + length]
        opened.parts, opened._tree = pickle.loads(description)  # noqa: S301  written by this run
        opened.address = _address(np.frombuffer(opened, np.uint8))
        _maps[str(path)] = opened
        return opened

    def load(self) -> Any:
        """The value, in new dicts and lists."""
        return _Unpickler(self, self._tree).load()

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int, **layout: Any) -> Any:
        """Read-only. `offset` is from the start of the file."""
        return np.ndarray(shape, dtype, memoryview(self).toreadonly(), offset, **layout)

    def tensor(self, dtype: str, shape: tuple[int, ...], offset: int, strides: tuple[int, ...] | None) -> Any:
        import torch  # noqa: PLC0415

        kind = getattr(torch, dtype)
        if 0 in shape:
            return torch.empty(shape, dtype=kind)
        if strides is None:
            return torch.frombuffer(self, dtype=kind, count=math.prod(shape), offset=offset).reshape(shape)
        count = 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
        return torch.frombuffer(self, dtype=kind, count=count, offset=offset).as_strided(shape, strides)

    def written(self) -> list[SharedPart]:
        """The parts that this process has changed. Only Linux tells."""
        page = mmap.PAGESIZE
        try:
            with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
                file.seek(self.address // page * _ENTRY_BYTES)
                entries = np.frombuffer(file.read(-(-len(self) // page) * _ENTRY_BYTES), np.uint64)
        except OSError:
            return []
        own = (entries & np.uint64(_PRESENT) != 0) & (entries & np.uint64(_OF_FILE) == 0)
        ranges = ((self._start + part.offset, part) for part in self.parts if part.bytes)
        return [part for at, part in ranges if own[at // page : -(-(at + part.bytes) // page)].any()]

    def part(self, part: SharedPart) -> Any:
        offset = self._start + part.offset
        if isinstance(part.dtype, str):
            return self.tensor(part.dtype, part.shape, offset, None)
        return self.array(part.dtype, part.shape, offset, order=part.order)


_maps: weakref.WeakValueDictionary[str, SharedMap] = weakref.WeakValueDictionary()


def open_maps() -> list[SharedMap]:
    """What this process uses of shared data."""
    return list(_maps.values())


def find_map(value: Any) -> SharedMap | None:
    """The file in which an array or a tensor lies, or a view of one; None: it is in memory of its own."""
    address = _address(value) if _maps else 0
    return next((each for each in open_maps() if 0 <= address - each.address < len(each)), None)


def _address(value: Any) -> int:
    """0: it is neither an array nor a tensor with elements."""
    if isinstance(value, np.ndarray):
        return int(value.__array_interface__["data"][0]) if value.size else 0
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return 0
    return int(value.data_ptr()) if value.device.type == "cpu" and value.numel() else 0
