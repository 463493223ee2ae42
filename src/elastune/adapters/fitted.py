"""What an estimator of scikit-learn has learned, as plain data, and back.

Reading a state must run no code, so the state has values only. Their places are in a template: the same
estimator after a first `partial_fit`, whose objects are filled with the values. What is a hyperparameter, of
the estimator or of an object inside it, stays as the template has it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from elastune.errors import JobError

_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.ndarray, np.generic)
_ALIAS = "same as"
_RANDOM = "random"
_COLUMNS = "columns first"
_GLOBAL: Any = np.random.mtrand._rand  # noqa: SLF001  what scikit-learn uses where no random_state is given


def learned(estimator: Any) -> dict[str, Any]:
    """Attribute by attribute; raises `JobError` where plain data do not suffice."""
    return _Reader().attributes(estimator, type(estimator).__name__)


def fill(template: Any, values: Mapping[str, Any]) -> None:
    """Give a template what `learned` read from another estimator of its kind."""
    _Writer().attributes(template, values, "")


class _Reader:
    """`_places` has where each array was seen first: some attributes are the same array twice, by intent."""

    def __init__(self) -> None:
        self._places: dict[int, str] = {}

    def attributes(self, thing: Any, path: str) -> dict[str, Any]:
        return {name: self.value(value, f"{path}.{name}") for name, value in _state(thing)}

    def value(self, value: Any, path: str) -> Any:
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                raise _inexpressible(path, "an array of Python objects")
            first = self._places.setdefault(id(value), path)
            if first != path:
                return {_ALIAS: first}
            # Sums are added in the order of the memory, so the last digits depend on it.
            return {_COLUMNS: value.T} if value.flags.fnc else value
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, list | tuple):
            return type(value)(self.value(each, f"{path}[{n}]") for n, each in enumerate(value))
        if isinstance(value, np.random.RandomState):
            return {_RANDOM: value.get_state(legacy=False)}
        if isinstance(value, dict) or callable(value):
            raise _inexpressible(path, f"a {type(value).__name__}")
        return self.attributes(value, path)


class _Writer:
    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def attributes(self, thing: Any, values: Mapping[str, Any], path: str) -> None:
        path = path or type(thing).__name__
        for name, value in values.items():
            if name == "learning_rate" and getattr(thing, "lr_schedule", "") == "constant":
                continue  # an optimizer inside a network: nothing was learned about it
            made = self.value(getattr(thing, name, None), value, f"{path}.{name}")
            if made is not None or hasattr(thing, name):
                setattr(thing, name, made)

    def value(self, old: Any, value: Any, path: str) -> Any:
        if isinstance(value, list | tuple):
            known = old if isinstance(old, list | tuple) and len(old) == len(value) else [None] * len(value)
            pairs = zip(known, value, strict=True)
            return type(value)(self.value(was, each, f"{path}[{n}]") for n, (was, each) in enumerate(pairs))
        if not isinstance(value, Mapping):
            if isinstance(value, np.ndarray):
                self._arrays[path] = value = value.copy()
            return value
        if _COLUMNS in value:
            self._arrays[path] = made = np.array(value[_COLUMNS]).T
            return made
        if _ALIAS in value:
            return self._arrays[value[_ALIAS]]
        if _RANDOM in value:
            random = np.random.RandomState()
            random.set_state(value[_RANDOM])
            return random
        if old is not None:
            self.attributes(old, value, path)
        return old


def _state(thing: Any) -> Iterator[tuple[str, Any]]:
    """All that is no hyperparameter. Objects of C have no attributes: the template's are as good."""
    given = inspect.signature(type(thing)).parameters if hasattr(thing, "__dict__") else {}
    for name, value in getattr(thing, "__dict__", {}).items():
        if name not in given and value is not _GLOBAL:  # that one is seeded for each iteration
            yield name, value


def _inexpressible(path: str, what: str) -> JobError:
    return JobError(
        f"{path} is {what}, which cannot be saved as plain data; "
        "save the estimator itself with sklearn_trainable(make, pickled=True) and `pickles: true` in the job"
    )
