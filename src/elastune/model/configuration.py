"""Configurations as values: nested as a training gets them, flat for samplers, models, tables and exports.

A value may be a list or a mapping: one of several choices (`[64, 64]`), or a group of hyperparameters
(`optimizer: {name: sgd, lr: 0.1}`). In the flat form a group becomes one entry per member, with a dotted name
(`optimizer.lr`), and a list becomes its JSON text, so that every value can be compared, hashed and written
into a cell. A configuration without lists and mappings is its own flat form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

Scalar = str | int | float | bool | None
Value = Scalar | Sequence["Value"] | Mapping[str, "Value"]
Configuration = Mapping[str, Value]
FlatConfiguration = Mapping[str, Scalar]

MOST_LEVELS = 20
"""Of lists and mappings inside each other."""


def is_compound(value: object) -> bool:
    """Whether a value is a list or a mapping."""
    return isinstance(value, list | tuple | Mapping)


def flattened(config: Configuration) -> FlatConfiguration:
    """One value per hyperparameter, none of them a list or a mapping."""
    if not any(is_compound(value) for value in config.values()):
        return config  # type: ignore[return-value]  # checked in the line above
    return dict(_members("", config))


def _members(prefix: str, group: Mapping[str, Value]) -> Iterator[tuple[str, Scalar]]:
    for name, value in group.items():
        if isinstance(value, Mapping) and value:
            yield from _members(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", scalar(value)


def scalar(value: Value) -> Scalar:
    """A list or a mapping as JSON text, the same for equal ones; any other value as it is."""
    if isinstance(value, str) or not isinstance(value, Sequence | Mapping):
        return value
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)


def _plain(value: Value) -> object:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def own_copy(config: Mapping[str, Any]) -> dict[str, Any]:
    """For the code of users, which may change its configuration."""
    return {name: copied(value) for name, value in config.items()}


def copied(value: Value) -> Value:
    """Lists and mappings inside a value are copied, too."""
    if isinstance(value, Mapping):
        return {name: copied(each) for name, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list | tuple) else value


class NotPlainError(ValueError):
    """A value is none of a configuration; `path` leads to the part that is not."""

    def __init__(self, path: tuple[str, ...], part: object) -> None:
        super().__init__("is not plain data")
        self.path = path
        self.part = part


def plain_value(written: object, path: tuple[str, ...] = ()) -> Value:
    """The same as plain Python data, fit for JSON; raises `NotPlainError`."""
    match written:
        case None | bool() | str():
            return written
        case Integral():
            return int(written)
        case Real() if math.isfinite(written):
            return float(written)
        case list() | tuple() if len(path) < MOST_LEVELS:
            return [plain_value(each, (*path, str(place))) for place, each in enumerate(written)]
        case Mapping() if len(path) < MOST_LEVELS:
            return {str(name): plain_value(each, (*path, str(name))) for name, each in written.items()}
    raise NotPlainError(path, written)
