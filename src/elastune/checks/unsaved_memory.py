"""What a training remembers outside of its state: optimizers, counters and schedules, and global variables.

A trial that continues in another process has only its state. One that starts in a process where another trial
was has what that one left in global variables. Both are found by comparing values; no code of theirs runs.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elastune.checks.sizes import has
from elastune.checks.source import is_users
from elastune.training.shared_file import find_map

# Of a larger array, so many values are compared, spread over it.
_COMPARED = 1 << 20
_DEPTH = 3
_MOST_ITEMS = 100
_SCHEDULE = "last_epoch"
_NUMBERS = (int, float)
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial, staticmethod, classmethod)


def named_by(training: Any) -> dict[str, Any]:
    """Attributes of the user's object, or local variables of the user's function."""
    instance, running = getattr(training, "_instance", None), getattr(training, "_running", None)
    if running is None:
        return {f"self.{name}": value for name, value in getattr(instance, "__dict__", {}).items()}
    named: dict[str, Any] = {}
    while running is not None:  # a function around it has `yield from`
        frame = getattr(running, "gi_frame", None)
        named |= {} if frame is None else frame.f_locals
        running = getattr(running, "gi_yieldfrom", None)
    return named


def unsaved_optimizers(training: Any, state: Any) -> list[str]:
    """Optimizers that remember something, if the state has none at all."""
    named = named_by(training).items()
    found = [name for name, value in named if has(value, "param_groups") and getattr(value, "state", None)]
    return [] if _has_key(state, "param_groups") else found


def _has_key(state: Any, key: str) -> bool:
    if isinstance(state, Mapping):
        return key in state or any(_has_key(value, key) for value in state.values())
    return isinstance(state, (list, tuple)) and any(_has_key(value, key) for value in state)


# Counters.


def counters_of(training: Any) -> dict[str, int]:
    """Whole numbers of a training by name, such as `epoch`, and those of schedules and of the user's objects,
    such as `scheduler.last_epoch`."""
    if not is_of_user(type(getattr(training, "_instance", None))):
        return {}
    counters: dict[str, int] = {}
    for name, value in named_by(training).items():
        if type(value) is int:
            counters[name] = value
        else:
            inside = _attributes(value)
            counters |= {f"{name}.{key}": inside[key] for key in _counting(value, inside)}
    return counters


def _attributes(value: object) -> Mapping[str, Any]:
    """Of an object; a proxy is not asked for those of what it stands for."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _counting(value: object, inside: Mapping[str, Any]) -> list[str]:
    if type(inside.get(_SCHEDULE)) is int:
        return [_SCHEDULE]
    if not is_of_user(type(value)):
        return []
    return [key for key, each in inside.items() if type(each) is int and not key.startswith("_")]


def is_of_user(kind: type) -> bool:
    if kind is type(None):  # a function, whose variables are the user's
        return True
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ != "builtins" and (file is None or is_users(file))


def started_again(trained: Sequence[Mapping[str, int]], continued: Mapping[str, int]) -> list[str]:
    """Counters that went up from the first to the second iteration (`trained`), and did not continue from a
    saved state: they are what they were after the first one, or have only counted the second."""
    if len(trained) != 2:
        return []
    first, second = trained
    return [
        name
        for name, now in continued.items()
        if first.get(name, now) < second.get(name, now) != now
        and now in (first[name], second[name] - first[name])
    ]


def is_schedule(name: str) -> bool:
    return name.endswith(f".{_SCHEDULE}")


# Global variables.


@dataclass(frozen=True, slots=True)
class ChangedGlobal:
    """A variable outside of the training that the training changed. `learns`: it is a model; `counts`: one
    number."""

    name: str
    learns: bool
    counts: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _WatchedGlobal:
    """`home[key]` is the variable, in a module, a class, a dict or a list; without a home, it cannot be
    replaced."""

    name: str
    value: Any
    before: int
    learns: bool
    home: Any
    key: Any

    @property
    def now(self) -> Any:
        """Data may be replaced by other data (`x = x / 255`). A model that is replaced is a new one."""
        try:
            found = self.home[self.key]
        except (LookupError, TypeError):
            return self.value
        return found if type(found) is type(self.value) and not self.learns else self.value


class GlobalWatch:
    """Compares models, arrays, tensors and numbers outside of a trainable before and after it has trained."""

    def __init__(self, user: Any) -> None:
        self._watched: list[_WatchedGlobal] = []
        self._seen: set[int] = set()
        for name, value, home in _outside_of(user):
            self._watch(name, value, _DEPTH, home, name.rpartition(".")[2])

    def changed(self) -> list[ChangedGlobal]:
        return [
            ChangedGlobal(each.name, each.learns, type(each.value) in _NUMBERS)
            for each in self._watched
            if fingerprint(each.now) != each.before
        ]

    def _watch(self, name: str, value: Any, depth: int, home: Any, key: Any) -> None:
        is_number = type(value) in _NUMBERS
        if is_number and any(each.name == name for each in self._watched):
            return  # several functions have the same global variables
        if not is_number:
            if id(value) in self._seen or isinstance(value, np.memmap) or find_map(value) is not None:
                return
            self._seen.add(id(value))
        learns = _is_model(value)
        if is_number or learns or isinstance(value, np.ndarray) or is_tensor(value):
            self._watched.append(_WatchedGlobal(name, value, fingerprint(value), learns, home, key))
        elif depth and type(value) in (dict, list, tuple) and len(value) <= _MOST_ITEMS:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for inner, each in list(items):
                self._watch(f"{name}[{inner!r}]", each, depth - 1, value, inner)


_Named = Iterator[tuple[str, Any, Mapping[str, Any]]]


def _outside_of(user: Any, depth: int = _DEPTH) -> _Named:
    """Global variables of its module, what it closes over, and attributes of its class."""
    if isinstance(user, functools.partial):
        yield from ((name, value, {}) for name, value in user.keywords.items())
        yield from _outside_of(user.func, depth)
    elif isinstance(user, type):
        for name, value in vars(user).items():
            if isinstance(value, _FUNCTIONS):
                yield from _outside_of(value, depth - 1) if depth else ()
            elif not name.startswith("__"):
                yield f"{user.__name__}.{name}", value, vars(user)
    elif isinstance(user, (types.MethodType, staticmethod, classmethod)):
        yield from _outside_of(user.__func__, depth)
    elif isinstance(user, types.FunctionType):
        yield from _around(inspect.unwrap(user), depth)


def _around(function: Any, depth: int) -> _Named:
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or (), strict=False):
        value = next(_contents(cell), None)
        if isinstance(value, (*_FUNCTIONS, type)):
            yield from _outside_of(value, depth - 1) if depth else ()
        else:
            yield name, value, {}
    if is_users(function.__code__.co_filename):
        home = function.__globals__
        yield from ((name, value, home) for name, value in list(home.items()) if name[:2] != "__")


def _contents(cell: types.CellType) -> Iterator[Any]:
    try:
        yield cell.cell_contents
    except ValueError:  # not bound yet
        return


def _is_model(value: Any) -> bool:
    torch = sys.modules.get("torch")
    is_module = torch is not None and issubclass(type(value), torch.nn.Module)
    return is_module or (
        not isinstance(value, type) and has(value, "partial_fit") and has(value, "get_params")
    )


def is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(type(value), torch.Tensor)


def fingerprint(value: Any) -> int:
    """Of all numbers in it."""
    if type(value) in _NUMBERS:
        return zlib.crc32(repr(value).encode())
    if has(value, "named_parameters"):
        parts: list[Any] = [*value.parameters(), *value.buffers()]
    elif _is_model(value):
        parts = [each for each in vars(value).values() if isinstance(each, np.ndarray)]
    else:
        parts = [value]
    found = len(parts)
    for part in parts:
        found = zlib.crc32(_some_bytes(part), found)
    return found


def _some_bytes(part: Any) -> bytes:
    if isinstance(part, np.ndarray):
        flat = part.ravel(order="K")  # without a copy, if it has no gaps
        some = flat[:: max(1, flat.size // _COMPARED)]
        return b"" if some.dtype.hasobject else np.ascontiguousarray(some).tobytes()
    torch = sys.modules["torch"]
    try:
        flat = part.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // _COMPARED)].contiguous().cpu()
        return bytes(some.view(torch.uint8).numpy())
    except (RuntimeError, TypeError, ValueError, NotImplementedError):  # sparse, or without values yet
        return b""
