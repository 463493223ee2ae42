"""What a trainable carries along: large arrays in globals, closures, arguments, attributes, local variables.

Sizes are estimated from arrays, tensors, tables and texts; what is read from a file by need (`numpy.memmap`)
or shared by the slots of a node (`elastune.shared`) counts as nothing.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from elastune.checks.source import plain_code
from elastune.training.shared_data import LARGE_BYTES
from elastune.training.shared_file import find_map

_DEPTH = 6
# A long list of numbers is not looked at one by one.
_MANY, _NUMBER_BYTES = 1000, 36


@dataclass(frozen=True, slots=True)
class HeldValue:
    """A variable, as the user knows it, such as `self.images`."""

    name: str
    bytes: int


def has(value: object, name: str) -> bool:
    """As `hasattr`, but no code of the value runs: proxies may refuse what they do not have."""
    return inspect.getattr_static(value, name, None) is not None


def measure_bytes(value: Any, depth: int = _DEPTH, seen: set[int] | None = None) -> int:
    """What an object holds in memory, as far as arrays and texts are concerned; each thing once."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, np.memmap | type):
        return 0
    seen.add(id(value))
    own = _own_bytes(value)
    if own is not None:
        return own
    return sum(measure_bytes(each, depth - 1, seen) for each in _inside(value)) if depth else 0


def _own_bytes(value: Any) -> int | None:
    """None: it is a container or an object."""
    if find_map(value) is not None:
        return 0
    if isinstance(value, np.ndarray):
        return 0 if isinstance(value.base, np.memmap) else int(value.nbytes)
    if isinstance(value, bytes | bytearray | str):
        return len(value)
    if isinstance(value, list | tuple) and len(value) > _MANY and isinstance(value[0], int | float):
        return _NUMBER_BYTES * len(value)
    if has(value, "element_size") and has(value, "numel"):
        return int(value.element_size() * value.numel())
    return _table_bytes(value)


def _table_bytes(value: Any) -> int | None:
    """Of tables of pandas."""
    if not has(value, "memory_usage"):
        return None
    try:
        total = value.memory_usage(deep=False)
        return int(total.sum() if hasattr(total, "sum") else total)
    except (TypeError, ValueError):
        return None


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from list(value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from list(value)
    elif not callable(value) and hasattr(value, "__dict__") and not inspect.ismodule(value):
        yield from list(vars(value).values())


def large_values(named: Mapping[str, Any], least: int = LARGE_BYTES, prefix: str = "") -> list[HeldValue]:
    """The large ones of some variables, the largest first."""
    seen: set[int] = set()
    held = []
    for name, value in named.items():
        if inspect.ismodule(value) or name.startswith("__"):
            continue
        size = measure_bytes(value, seen=seen)
        if size >= least:
            held.append(HeldValue(f"{prefix}{name}", size))
    return sorted(held, key=lambda each: -each.bytes)


def carried_by(user: Any, *, by_value: bool, least: int = LARGE_BYTES) -> tuple[HeldValue, ...]:
    """What is large in the closure, the arguments and the globals of a trainable.

    `by_value`: it is pickled, with the globals that it uses; otherwise its module is imported by every slot.
    """
    found: dict[str, Any] = {}
    while isinstance(user, functools.partial):
        names = inspect.signature(user.func).parameters
        found |= dict(zip(names, user.args, strict=False)) | user.keywords
        user = user.func
    code = plain_code(user)
    if not isinstance(user, type) and not inspect.isroutine(user):
        found |= {f"self.{name}": value for name, value in vars(user).items()}
    for function in _functions_of(code):
        found |= _used_by(function)
    if isinstance(code, type):
        found |= {name: value for name, value in vars(code).items() if not callable(value)}
    if not by_value:
        module = sys.modules.get(getattr(code, "__module__", ""))
        found |= {} if module is None else vars(module)
    return tuple(large_values(found, least))


def _functions_of(code: Any) -> list[Any]:
    if not isinstance(code, type):
        return [code]
    return [inspect.unwrap(each) for each in vars(code).values() if inspect.isfunction(each)]


def _used_by(function: Any) -> dict[str, Any]:
    try:
        variables = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return {}
    return {**variables.globals, **variables.nonlocals}
