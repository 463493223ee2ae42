"""Configurations as rows of numbers, for models and distances: one group of columns per hyperparameter."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastune.model.configuration import Configuration, Scalar, flattened

Array = NDArray[np.float64]

# Width, depth and batch size act multiplicatively. Below this range the logarithm is nearly linear anyway.
_LOG_RANGE = 4.0
# The squares of larger numbers overflow; they are taken as categories.
_HUGE = 1e150
# Standard deviations from the mean; farther out nothing can be said anyway.
_FAR = 1e6


@dataclass(frozen=True, slots=True)
class Columns:
    """Those of one hyperparameter: its number, standardised, and an indicator for each other value."""

    name: str
    start: int
    is_numeric: bool
    takes_log: bool
    centre: float
    scale: float
    ends: tuple[float, ...]
    """The smallest and the largest measured number, standardised."""
    levels: Mapping[tuple[str, str], int]

    @property
    def at(self) -> slice:
        return slice(self.start, self.start + self.is_numeric + len(self.levels))

    @property
    def varies(self) -> bool:
        return self.is_numeric or len(self.levels) > 1

    def fill(self, rows: Array, values: Sequence[Scalar | _Missing]) -> Array:
        """Encode a value per row; 1 where nothing like it was measured."""
        if self.is_numeric:
            numbers = np.array([_number(value) for value in values])
            if self.takes_log:
                numbers = np.log(np.where(numbers > 0.0, numbers, np.nan))
            rows[:, self.start] = np.clip(np.nan_to_num((numbers - self.centre) / self.scale), -_FAR, _FAR)
            unknown = np.isnan(numbers)
        else:
            unknown = np.ones(len(values), dtype=bool)
        for at in np.flatnonzero(unknown).tolist():
            column = self.levels.get(_level(values[at]))
            if column is not None:
                rows[at, column] = 1.0
                unknown[at] = False
        return np.asarray(unknown, dtype=np.float64)


class _Missing(enum.Enum):
    """The value of a hyperparameter that a configuration does not have: a category of its own."""

    MISSING = "missing"


def _number(value: Scalar | _Missing) -> float:
    """NaN: not a number, or not one to calculate with."""
    if not isinstance(value, float | int) or isinstance(value, bool) or not abs(value) < _HUGE:
        return math.nan
    return float(value)


def _level(value: Scalar | _Missing) -> tuple[str, str]:
    """A value as a category; 1 and 1.0 are the same, 1 and True are not."""
    number = _number(value)
    return (type(value).__name__, str(value)) if math.isnan(number) else ("number", repr(number))


def _columns_of(name: str, values: Sequence[Scalar | _Missing], start: int) -> Columns:
    every = np.array([_number(value) for value in values])
    is_number = ~np.isnan(every)
    numbers = every[is_number]
    is_numeric = len(numbers) > 0 and bool(numbers.min() < numbers.max())
    takes_log = is_numeric and bool(numbers.min() > 0.0 and numbers.max() >= _LOG_RANGE * numbers.min())
    scaled = np.log(numbers) if takes_log else numbers
    centre, scale = (float(scaled.mean()), float(scaled.std()) or 1.0) if is_numeric else (0.0, 1.0)
    others = {_level(values[at]) for at in range(len(values)) if not (is_numeric and is_number[at])}
    return Columns(
        name=name,
        start=start,
        is_numeric=is_numeric,
        takes_log=takes_log,
        centre=centre,
        scale=scale,
        ends=tuple((scaled[[scaled.argmin(), scaled.argmax()]] - centre) / scale) if is_numeric else (),
        levels={level: start + is_numeric + at for at, level in enumerate(sorted(others))},
    )


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the hyperparameters of some configurations are written as numbers, in the order of their names."""

    columns: tuple[Columns, ...]

    @classmethod
    def of(cls, nested: Sequence[Configuration]) -> Encoding:
        configs = [flattened(config) for config in nested]
        found: list[Columns] = []
        start = 0
        for name in sorted({name for config in configs for name in config}):
            values = [config.get(name, _Missing.MISSING) for config in configs]
            found.append(_columns_of(name, values, start))
            start = found[-1].at.stop
        return cls(tuple(found))

    @property
    def width(self) -> int:
        return self.columns[-1].at.stop if self.columns else 0

    def rows(self, nested: Sequence[Configuration]) -> tuple[Array, Array]:
        """A row per configuration, and per hyperparameter 1 where its value is not one of those encoded;
        last, the number of hyperparameters that none of them had."""
        configs = [flattened(config) for config in nested]
        rows = np.zeros((len(configs), self.width))
        unknown = np.zeros((len(configs), len(self.columns) + 1))
        for at, each in enumerate(self.columns):
            values = [config.get(each.name, _Missing.MISSING) for config in configs]
            unknown[:, at] = each.fill(rows, values)
        names = {each.name for each in self.columns}
        unknown[:, -1] = [0 if names.issuperset(config) else len(config.keys() - names) for config in configs]
        return rows, unknown
