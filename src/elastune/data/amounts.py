"""How much memory data take, and how that is written for people."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

_LOOKED_AT = 1000


def format_bytes(count: int) -> str:
    """`512 bytes`, `1.5 MB`, in powers of ten as the job file has it."""
    for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def measure(data: Any) -> int:
    """Exact for arrays, tensors and data frames; of long lists of objects a part is measured."""
    known: set[int] = set()
    if isinstance(data, Mapping):
        return sum(_measure(column, known) for column in data.values())
    if isinstance(data, tuple):
        return sum(_measure(column, known) for column in data)
    return _measure(data, known)


def _measure(value: Any, known: set[int]) -> int:
    if id(value) in known:
        return 0
    known.add(id(value))
    if (usage := getattr(value, "memory_usage", None)) is not None:  # a data frame
        return int(np.sum(usage(deep=True)))
    size = getattr(value, "nbytes", None)  # of arrays and tensors
    own = size if isinstance(size, int) else sys.getsizeof(value, 0)
    return own + _many(_inside(value), known)


def _inside(value: Any) -> Collection[Any]:
    """What it refers to and does not count itself."""
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
    count = len(values)
    if not count:
        return 0
    step = -(-count // _LOOKED_AT)
    looked_at = [_measure(value, known) for value in islice(values, 0, None, step)]
    return round(sum(looked_at) * count / len(looked_at))
