"""What a training holds in memory, by name and as fingerprints: to find what its state leaves out."""

from __future__ import annotations

import random
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from elastune.checks.sizes import has
from elastune.checks.unsaved_memory import fingerprint, is_of_user, is_tensor, named_by

_DEPTH = 4
_MOST_ITEMS = 100
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
MODE = "the mode (train or eval) of "

Memory = Mapping[str, int]


def remembered(training: Any) -> Memory:
    """Of all that is known by a name: models, objects with a state, arrays, numbers, random generators.
    An adapter knows itself what it saves."""
    found: dict[str, int] = {}
    if not is_of_user(type(getattr(training, "_instance", None))):
        return found
    for name, value in named_by(training).items():
        if not _is_module(value):
            found[name] = _print_of(value, _DEPTH)
            continue
        found[name] = fingerprint(value)
        modes = [bool(each.training) for each in value.modules()]
        found[f"{MODE}{name}"] = zlib.crc32(repr(modes).encode())
    return found


class GradientWatch:
    """Whether gradients of one iteration are still there, and are added to, in the next one."""

    def __init__(self, training: Any) -> None:
        self.waiting: list[str] = []
        """The models of which they are."""
        self._seen: set[str] = set()
        for name, value in named_by(training).items():
            for model in _modules_in(value):
                held = next((each for each in model.parameters() if _is_waiting(each)), None)
                if held is not None:
                    held.register_hook(self._hook(name, held))

    def _hook(self, name: str, parameter: Any) -> Any:
        """Called before a gradient is added to those that are there."""

        def note(_: Any) -> None:
            if name not in self._seen:
                self._seen.add(name)
                self.waiting.extend([name] if _is_waiting(parameter) else [])

        return note


def _is_waiting(parameter: Any) -> bool:
    gradient = parameter.grad if parameter.requires_grad else None
    return gradient is not None and bool(gradient.any())


def forgotten(fresh: Memory, trained: Memory, loaded: Memory) -> list[str]:
    """What the first iteration (`trained`) changed in a new training (`fresh`) and `load` did not restore."""
    return [
        name
        for name, before in trained.items()
        if name in fresh and name in loaded and before not in (fresh[name], loaded[name])
    ]


def left_out(training: Any, state: Any, earlier: Memory, now: Memory) -> list[str]:
    """Models and objects with a state that went on learning (`earlier` to `now`) and are in no part of the
    state, neither by their numbers nor by their keys."""
    leaves = {fingerprint(each) for each in _leaves(state)}
    names: list[str] = []
    for name, value in named_by(training).items():
        if name not in earlier or earlier[name] == now.get(name) or has(value, "param_groups"):
            continue
        own = _state_of(value)
        numbers = {fingerprint(each) for each in _leaves(own)}
        # Two models may have the same keys.
        is_there = not numbers.isdisjoint(leaves) or (not _is_module(value) and _has_keys(state, own.keys()))
        if own and not is_there:
            names.append(name)
    return names


def orphaned(training: Any) -> list[str]:
    """Optimizers that train none of the parameters of the models that the training holds."""
    named = named_by(training)
    held = {
        id(each) for value in named.values() for model in _modules_in(value) for each in model.parameters()
    }
    if not held:
        return []
    return [name for name, value in named.items() if _groups(value) and held.isdisjoint(_trained_by(value))]


def models_by_name(training: Any) -> dict[str, int]:
    """A fingerprint of what each model learns, of those that learn."""
    found: dict[str, int] = {}
    for name, value in named_by(training).items():
        for number, model in enumerate(_modules_in(value)):
            learned = [each.detach() for each in model.parameters() if each.requires_grad]
            key = name if model is value else f"{name}[{number}]"
            if learned:
                found[key] = _print_of(learned, 1)
    return found


def _modules_in(value: Any) -> Iterator[Any]:
    if _is_module(value):
        yield value
    elif type(value) in (list, tuple, dict) and len(value) <= _MOST_ITEMS:
        inside = value.values() if isinstance(value, dict) else value
        yield from (each for each in inside if _is_module(each))


def _groups(value: Any) -> list[Any]:
    groups = getattr(value, "param_groups", None) if has(value, "param_groups") else None
    return groups if isinstance(groups, list) else []


def _trained_by(optimizer: Any) -> set[int]:
    return {id(each) for group in _groups(optimizer) for each in group.get("params", ())}


def _is_module(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(type(value), torch.nn.Module)


def _state_of(value: Any) -> Mapping[Any, Any]:
    """Of an object with a `state_dict`; empty for all others."""
    if isinstance(value, type) or not has(value, "state_dict"):
        return {}
    try:
        found = value.state_dict()
    except Exception:  # noqa: BLE001  it may need what is not there yet
        return {}
    return found if isinstance(found, Mapping) else {}


def _leaves(value: Any) -> Iterator[Any]:
    """Arrays and tensors of real numbers at any depth of a state. Counters of two models may be equal."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    elif value.is_floating_point() if is_tensor(value) else _is_real(value):
        yield value


def _is_real(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _has_keys(state: Any, keys: Iterable[Any]) -> bool:
    if isinstance(state, Mapping):
        return set(keys) <= set(state) or any(_has_keys(each, keys) for each in state.values())
    return isinstance(state, list | tuple) and any(_has_keys(each, keys) for each in state)


def _print_of(value: Any, depth: int) -> int:
    """0 for what is not looked into."""
    if isinstance(value, _PLAIN):
        return zlib.crc32(repr(value).encode())
    if is_tensor(value) or isinstance(value, np.ndarray):
        return fingerprint(value)
    if type(value) in (list, tuple, dict, deque):
        items = value.items() if isinstance(value, dict) else value
        found = len(value)
        for each, _ in zip(items, range(_MOST_ITEMS), strict=False):
            found = zlib.crc32(str(_print_of(each, depth - 1) if depth else 0).encode(), found)
        return found
    if isinstance(value, np.random.Generator):
        return zlib.crc32(repr(value.bit_generator.state).encode())
    if type(value) is random.Random:
        return zlib.crc32(repr(value.getstate()).encode())
    return _print_of_object(value, depth)


def _print_of_object(value: Any, depth: int) -> int:
    if not depth or isinstance(value, type) or callable(value):
        return 0
    if own := _state_of(value):
        return _print_of(dict(own), depth - 1)
    inside = object.__getattribute__(value, "__dict__") if has(value, "__dict__") else None
    if type(inside) is dict and is_of_user(type(value)):
        return _print_of(inside, depth - 1)
    return 0
