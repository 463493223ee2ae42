"""Any object as plain data that can be compared: two cores are equal when their portraits are."""

from __future__ import annotations

import dataclasses
import enum
import functools
import random
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

_PLAIN = (str, int, float, bool, type(None), enum.Enum, np.generic)
# Most things, found without asking an abstract class.
_QUICK = frozenset({str, int, float, bool, type(None)})


def portrait(thing: Any) -> Any:
    if type(thing) in _QUICK or isinstance(thing, _PLAIN):
        return thing
    if isinstance(thing, dict | Mapping):
        return {portrait(key): portrait(value) for key, value in thing.items()}
    if isinstance(thing, tuple):
        return tuple(map(portrait, thing))
    if isinstance(thing, list | deque | np.ndarray):
        return list(map(portrait, thing))
    if isinstance(thing, set | frozenset):
        return frozenset(map(portrait, thing))
    return _portrait_of_object(thing)


def _portrait_of_object(thing: Any) -> Any:
    if isinstance(thing, random.Random):
        return thing.getstate()
    if isinstance(thing, np.random.Generator):
        return thing.bit_generator.state
    if dataclasses.is_dataclass(thing):
        if _is_hashable(thing):
            return thing  # frozen, all the way down: compares by itself
        kind: Any = type(thing)
        return {name: portrait(getattr(thing, name)) for name in _field_names(kind)}
    if callable(thing):
        return None
    return {name: portrait(value) for name, value in vars(thing).items()}


@functools.cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _is_hashable(thing: Any) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True
