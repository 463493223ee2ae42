"""Compares two states bit for bit, and notes whether a state was read at all."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Difference:
    """Between two states, at a path such as `optimizer.state.0`. `relative` is infinite for other kinds."""

    path: str
    relative: float


def differences(found: Any, expected: Any, path: str = "") -> Iterator[Difference]:
    """Of all values that are not equal bit for bit. NaN equals NaN."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        for key in [*expected, *(key for key in found if key not in expected)]:
            inside = f"{path}.{key}" if path else str(key)
            if key in found and key in expected:
                yield from differences(found[key], expected[key], inside)
            else:
                yield Difference(inside, math.inf)
    elif isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        if len(found) != len(expected):
            yield Difference(path, math.inf)
            return
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{path}.{number}" if path else str(number))
    elif (relative := _relative(found, expected)) is not None:
        yield Difference(path or "the state", relative)


def _relative(found: Any, expected: Any) -> float | None:
    """How much two values differ; None: they are equal."""
    if _is_number_like(found) and _is_number_like(expected):
        one, other = _numbers(found), _numbers(expected)
        if one.shape != other.shape:
            return math.inf
        if one.dtype.kind not in "fc" or other.dtype.kind not in "fc":
            if np.array_equal(one, other):
                return None
            return _distance(one.astype(np.float64), other.astype(np.float64))
        return None if np.array_equal(one, other, equal_nan=True) else _distance(one, other)
    try:
        is_equal = bool(found == expected)
    except Exception:  # noqa: BLE001  objects of the user compare as they like
        is_equal = False
    return None if is_equal else math.inf


def _distance(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    with np.errstate(all="ignore"):
        apart = np.max(np.abs(one.astype(np.complex128) - other.astype(np.complex128)), initial=0.0)
        scale = np.max(np.abs(other.astype(np.complex128)), initial=0.0)
    if not math.isfinite(apart):
        return math.inf
    return float(apart / scale) if scale else math.inf


def _is_number_like(value: Any) -> bool:
    if isinstance(value, bool | int | float | complex | np.number | np.bool_):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufc"
    return hasattr(value, "detach")


def _numbers(value: Any) -> np.ndarray[Any, Any]:
    if not hasattr(value, "detach"):
        return np.asarray(value)
    plain = value.detach().cpu()
    try:
        return np.asarray(plain.numpy())
    except TypeError:  # types that numpy does not have, such as bfloat16
        return np.asarray(plain.double().numpy())


def float_arrays(state: Any, path: str = "") -> dict[str, np.ndarray[Any, Any]]:
    """Those with several numbers, by path: what a training learns, and no counters or random generators."""
    if isinstance(state, Mapping):
        items = state.items()
    elif isinstance(state, list | tuple):
        items = dict(enumerate(state)).items()
    else:
        if not _is_number_like(state):
            return {}
        array = _numbers(state)
        return {path or "the state": array} if array.dtype.kind in "fc" and array.size > 1 else {}
    found: dict[str, np.ndarray[Any, Any]] = {}
    for key, value in items:
        found |= float_arrays(value, f"{path}.{key}" if path else str(key))
    return found


def changed_arrays(
    before: Mapping[str, np.ndarray[Any, Any]], after: Mapping[str, np.ndarray[Any, Any]]
) -> list[str]:
    return [
        path
        for path, array in after.items()
        if path in before and not np.array_equal(before[path], array, equal_nan=True)
    ]


class WatchedState(dict[Any, Any]):
    """A dict that notes which of its keys are read. Asking whether it is empty is not reading."""

    def __init__(self, state: Mapping[Any, Any]) -> None:
        super().__init__(state)
        self.read: set[Any] = set()

    def unread(self) -> list[str]:
        """In order."""
        return [str(key) for key in dict.keys(self) if key not in self.read]

    def _read_all(self) -> None:
        self.read.update(dict.keys(self))

    def __getitem__(self, key: Any) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        self.read.add(key)
        return super().pop(key, *default)

    def __iter__(self) -> Iterator[Any]:
        self._read_all()
        return super().__iter__()

    def keys(self) -> Any:
        self._read_all()
        return super().keys()

    def values(self) -> Any:
        self._read_all()
        return super().values()

    def items(self) -> Any:
        self._read_all()
        return super().items()

    def copy(self) -> Any:
        self._read_all()
        return dict(super().items())

    def __reduce__(self) -> Any:
        self._read_all()
        return dict, (dict(super().items()),)


class WatchedConfig(WatchedState):
    """The configuration of a training; it stays watched although each training has a copy of its own."""

    def missed(self) -> list[str]:
        """Names that were looked for and are not there."""
        return sorted(str(key) for key in self.read if not dict.__contains__(self, key))

    def __deepcopy__(self, memo: Any) -> WatchedConfig:
        own = WatchedConfig(copy.deepcopy(dict(dict.items(self)), memo))
        own.read = self.read
        return own


# Errors name the type: `unsupported operand type(s) for *: 'dict' and 'int'`.
WatchedConfig.__name__ = WatchedConfig.__qualname__ = "dict"


def unwatched(value: Any) -> Any:
    """A state that may contain the watched one, as plain dicts."""
    if isinstance(value, WatchedState):
        return {key: unwatched(each) for key, each in dict.items(value)}
    if type(value) in (dict, list, tuple):
        if isinstance(value, dict):
            return {key: unwatched(each) for key, each in value.items()}
        return type(value)(unwatched(each) for each in value)
    return value
