"""The bytes of a checkpoint: a description in JSON and raw buffers, under one checksum.

    ELASTUNE | checksum | version | length of the description | length of all | description | buffers

Checksum and version have 4 bytes, lengths 8, little-endian; buffers start at multiples of 64. The checksum
(CRC-32) covers all that follows it. `encoding` decides what the description means. Numpy's data types are
written as text if their bytes are their values: no objects, no types of other packages.
"""

from __future__ import annotations

import ast
import functools
import json
import struct
import warnings
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from elastune.errors import ExecutionError

Buffer = bytes | memoryview

MAGIC = b"ELASTUNE"
VERSION = 1
_CHECKSUM = struct.Struct("<I")
_FIELDS = struct.Struct("<IQQ")
_START = len(MAGIC) + _CHECKSUM.size + _FIELDS.size
_ALIGNED = 64


class Packed(NamedTuple):
    """The bytes of a state in pieces that are not copied: views of its arrays. `size` is of all together.

    The checksum is computed when it is asked for, in one pass over all bytes.
    """

    parts: tuple[Buffer, ...]
    text_size: int
    size: int

    @property
    def unsealed(self) -> tuple[Buffer, ...]:
        """Without a checksum: for memory, where bytes do not decay."""
        return (MAGIC, _CHECKSUM.pack(0), self._lengths, *self.parts)

    @property
    def sealed(self) -> tuple[Buffer, ...]:
        checksum = _checksum((self._lengths, *self.parts))
        return (MAGIC, _CHECKSUM.pack(checksum), self._lengths, *self.parts)

    @property
    def _lengths(self) -> bytes:
        return _FIELDS.pack(VERSION, self.text_size, self.size)


def pack(description: object, buffers: Sequence[Buffer]) -> Packed:
    content = {"tree": description, "sizes": [len(buffer) for buffer in buffers]}
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")
    parts: list[Buffer] = [text]
    end = _START + len(text)
    for buffer in buffers:
        padding = -end % _ALIGNED
        parts += (bytes(padding), buffer)
        end += padding + len(buffer)
    return Packed(tuple(parts), len(text), end)


def seal(unsealed: memoryview) -> tuple[Buffer, ...]:
    """The same bytes with their checksum, in pieces."""
    rest = unsealed[len(MAGIC) + _CHECKSUM.size :]
    return (MAGIC, _CHECKSUM.pack(_checksum([rest])), rest)


def unpack(data: Buffer, *, is_sealed: bool = True) -> tuple[Any, list[memoryview]]:
    """The description, and views into `data`. The checksum of what is not sealed is not looked at."""
    view = memoryview(data).cast("B")
    if view[: len(MAGIC)] != MAGIC[: len(view)] or not len(view):
        raise ExecutionError("not an Elastune checkpoint (wrong magic bytes)")
    if len(view) < _START:
        raise ExecutionError(f"the checkpoint is cut off: it has only {len(view)} bytes")
    (checksum,) = _CHECKSUM.unpack_from(view, len(MAGIC))
    version, length, total = _FIELDS.unpack_from(view, len(MAGIC) + _CHECKSUM.size)
    if is_sealed and _checksum([view[len(MAGIC) + _CHECKSUM.size :]]) != checksum:
        if version == VERSION and len(view) < total:
            raise ExecutionError(f"the checkpoint is cut off: it has {len(view):,} of {total:,} bytes")
        raise ExecutionError("the checkpoint is damaged: its checksum does not match its content")
    if version != VERSION:
        raise ExecutionError(
            f"the checkpoint has version {version} of the format; this Elastune reads version {VERSION}"
        )
    # The checksum is right, so errors from here on are not accidents.
    try:
        content = json.loads(bytes(view[_START : _START + length]))
        return content["tree"], _buffers(view, _START + length, content["sizes"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ExecutionError(f"the checkpoint's description cannot be read: {error}") from error


def _buffers(view: memoryview, end: int, sizes: Iterable[int]) -> list[memoryview]:
    buffers = []
    for size in sizes:
        start = end + -end % _ALIGNED
        end = start + size
        if size < 0 or end > len(view):
            raise ValueError(f"a buffer of {size} bytes is out of bounds")
        buffers.append(view[start:end])
    return buffers


def _checksum(parts: Iterable[Buffer]) -> int:
    return functools.reduce(lambda value, part: zlib.crc32(part, value), parts, 0)


def dtype_to_text(dtype: np.dtype[Any]) -> str | None:
    """None: the bytes of this type are not its values."""
    if dtype.hasobject or dtype.kind not in "?biufcSUmMV":
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about metadata of a type, which is not part of its values
        text = repr(np.lib.format.dtype_to_descr(dtype))
    try:
        return text if text_to_dtype(text) == dtype else None
    except (ValueError, TypeError, SyntaxError):
        return None


def text_to_dtype(text: str) -> np.dtype[Any]:
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(text))
    if dtype.hasobject:
        raise ValueError(f"arrays of {text} hold objects")
    return dtype
