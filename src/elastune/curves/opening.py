"""From the name of a trainable to the trainable; functions of the user as trainables.

A function is either `f(config, iteration)`, which returns the metrics of one iteration and is endless, or a
generator function `f(config)`, which yields them iteration by iteration and is finished when it returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import SupportsFloat, cast

from elastune.curves.npz import read_npz
from elastune.curves.parquet import read_parquet
from elastune.curves.source import (
    CURVE_SUFFIXES,
    BareSource,
    Curve,
    CurveFile,
    CurveSource,
    Function,
    HyperSchedFunction,
    Reference,
    Row,
    UnmeasuredCurve,
    located,
)
from elastune.curves.table import CurveTable
from elastune.errors import JobError
from elastune.model.configuration import Configuration, own_copy
from elastune.training.recipe import load
from elastune.wording import did_you_mean, seen

SYNTHETIC = {"synthetic:hypersched": HyperSchedFunction}
_EXPECTED = "a function f(config, iteration), or a generator function f(config)"
_WHAT_TO_DO = (
    "a training for real runs cannot be simulated, unless as a file of its curves; `elastune run` trains it, "
    "`elastune plan` says what that will take"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSource(BareSource):
    """`name` stands for the function in errors."""

    function: Function
    metric: str
    name: str
    is_generator: bool

    @classmethod
    def of(cls, function: Function, metric: str | None, *, name: str) -> FunctionSource:
        if isinstance(function, type):
            raise JobError(f"{name}: this is a class; expected {_EXPECTED}: {_WHAT_TO_DO}")
        code = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
        is_generator = inspect.isgeneratorfunction(inspect.unwrap(code))
        is_real = is_generator and _mismatch(function, "config", "worker", "state") is None
        if is_real and _mismatch(function, "config") is not None:
            seen_as = "a generator function f(config, worker, state)"
            raise JobError(f"{name}: this is {seen_as}; expected {_EXPECTED}: {_WHAT_TO_DO}")
        if metric is None:
            raise JobError(f"metric is missing; expected the name of what {name} returns, such as accuracy")
        returns_once = not is_generator and _mismatch(function, "config") is None
        if returns_once and _mismatch(function, "config", "iteration") is not None:
            seen_as = "a function f(config) without a yield, which returns its metrics once"
            raise JobError(f"{name}: this is {seen_as}; expected {_EXPECTED}: {_WHAT_TO_DO}")
        names = ("config",) if is_generator else ("config", "iteration")
        if (error := _mismatch(function, *names)) is not None:
            called = f"f({', '.join(names)})"
            raise JobError(f"{name}: cannot be called as {called}: {error}; expected {_EXPECTED}")
        return cls(function=function, metric=metric, name=name, is_generator=is_generator)

    def curve(self, config: Configuration, seed: tuple[int, int]) -> Curve:
        if self.is_generator:
            start = cast("Callable[[Configuration], Iterator[object]]", self.function)
            return GeneratorCurve(start, config, self.as_row)
        return FunctionCurve(self.function, config, self.as_row)

    def as_row(self, metrics: object) -> Row:
        """A number is the metric; a mapping must have the metric among its numbers."""
        given = metrics if isinstance(metrics, Mapping) else {self.metric: metrics}
        numbers = ((str(key), _number(value)) for key, value in given.items())
        row = {key: value for key, value in numbers if value is not None}
        if self.metric not in row:
            expected = f"a number, or a mapping with the number {self.metric!r}"
            raise JobError(f"{self.name} gave {seen(metrics)}; expected {expected}")
        return row


@dataclass(frozen=True, slots=True)
class FunctionCurve(UnmeasuredCurve):
    """Calls the function for every iteration; its result must not depend on earlier calls."""

    function: Function
    config: Configuration
    as_row: Callable[[object], Row]

    def rows(self, first: int, last: int) -> Sequence[Row]:
        return [self.as_row(self.function(own_copy(self.config), k)) for k in range(first, last + 1)]


class GeneratorCurve(UnmeasuredCurve):
    """Advances the generator as far as needed and keeps the rows, since it cannot go back.

    After a crash the next call starts the generator from the beginning, as a retry would.
    """

    def __init__(
        self,
        start: Callable[[Configuration], Iterator[object]],
        config: Configuration,
        as_row: Callable[[object], Row],
    ) -> None:
        self._start, self._config, self._as_row = start, config, as_row
        self._rows: list[Row] = []
        self._running: Iterator[object] | None = None

    def rows(self, first: int, last: int) -> Sequence[Row]:
        while self.length is None and len(self._rows) < last:
            self._advance()
        return self._rows[first - 1 : last]

    def _advance(self) -> None:
        running = self._running or islice(self._start(own_copy(self._config)), len(self._rows), None)
        self._running = None
        try:
            self._rows.append(self._as_row(next(running)))
        except StopIteration:
            self.length = len(self._rows)
        else:
            self._running = running


def _number(value: object) -> float | None:
    """Also scalars and arrays without dimensions of numpy and torch; None: not a number."""
    if not isinstance(value, SupportsFloat) or getattr(value, "ndim", None) not in (None, 0):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):  # such as an array of texts
        return None


def _mismatch(function: Function, *names: str) -> str | None:
    """Why the function cannot be called with these arguments; None: it can."""
    try:
        inspect.signature(function).bind(*names)
    except TypeError as error:
        return str(error)
    except ValueError:  # functions written in C may have no signature
        pass
    return None


def open_trainable(
    reference: Reference, *, metric: str | None = None, folder: str | Path = "."
) -> CurveSource:
    """Read or import what `reference` names; relative paths start at `folder`.

    `metric` chooses among the curves of a file, or names the number that a function returns.
    """
    place = located(reference, Path(folder))
    if isinstance(place, str) and place.endswith(CURVE_SUFFIXES):
        place = CurveFile(path=place)
    if isinstance(place, CurveFile):
        return open_curves(place, metric)
    if isinstance(place, str):
        if place in SYNTHETIC:
            source = SYNTHETIC[place]()
            if metric not in (None, source.metric):
                raise JobError(f"metric is {seen(metric)}; this trainable has only {source.metric!r}")
            return source
        if ":" not in place or place.startswith("synthetic:"):
            hint = did_you_mean(place, SYNTHETIC)
            raise JobError(f"trainable is {seen(place)}; expected {possible()}{hint}")
        return FunctionSource.of(load(place), metric, name=place)
    return FunctionSource.of(place, metric, name=getattr(place, "__qualname__", repr(place)))


def open_curves(file: CurveFile, metric: str | None) -> CurveTable:
    """The table in an `.npz` or `.parquet` file."""
    if not file.path.endswith(CURVE_SUFFIXES):
        raise JobError(f"{file.path}: not a file of curves; expected the ending .npz or .parquet")
    read = read_npz if file.path.endswith(".npz") else read_parquet
    try:
        recording = read(file, metric)
    except JobError as error:
        raise JobError(f"{file.path}: {error}") from None
    return CurveTable.of(recording, source=file.path)


def possible() -> str:
    """What may be named as a trainable."""
    return (
        f"{', '.join(SYNTHETIC)}, a file of curves (such as curves.npz or curves.parquet) "
        "or a function (path/to/file.py:function or package.module:function)"
    )
