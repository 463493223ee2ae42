"""Functions of the user as trainables.

Either `f(config, iteration)`, which returns the metrics of one iteration and is endless, or a generator
function `f(config)`, which yields them one iteration after the other and is finished when it returns.

From the name of a trainable to the trainable.
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
    Curve,
    CurveFile,
    CurveSource,
    Function,
    HyperSchedFunction,
    Reference,
    Row,
    located,
)
from elastune.curves.table import CurveTable
from elastune.errors import JobError
from elastune.space.sampler import Configuration
from elastune.space.space import Scalar
from elastune.training.recipe import load
from elastune.wording import did_you_mean, seen

_EXPECTED = "a function f(config, iteration), or a generator function f(config)"
_WHAT_TO_DO = (
    "a training for real runs cannot be simulated, unless as a file of its curves; `elastune run` trains it, "
    "`elastune plan` says what that will take"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSource:
    """`name` is how errors speak of the function."""

    function: Function
    metric: str
    name: str
    is_generator: bool
    mode: None = None
    space: None = None
    table: None = None
    longest: None = None

    @classmethod
    def of(cls, function: Function, metric: str | None, *, name: str) -> FunctionSource:
        if isinstance(function, type):
            raise JobError(f"{name}: this is a class; expected {_EXPECTED}: {_WHAT_TO_DO}")
        code = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
        is_generator = inspect.isgeneratorfunction(inspect.unwrap(code))
        if is_generator and _takes(function, "config", "worker", "state") and not _takes(function, "config"):
            raise JobError(
                f"{name}: this is a generator function f(config, worker, state); expected {_EXPECTED}: "
                f"{_WHAT_TO_DO}"
            )
        if metric is None:
            raise JobError(f"metric is missing; expected the name of what {name} returns, such as accuracy")
        _check_arguments(function, ("config",) if is_generator else ("config", "iteration"), name)
        return cls(function=function, metric=metric, name=name, is_generator=is_generator)

    def curve(self, config: Configuration, seed: tuple[int, int]) -> Curve:
        if self.is_generator:
            start = cast("Callable[[Configuration], Iterator[object]]", self.function)
            return GeneratorCurve(start, dict(config), self.as_row)
        return FunctionCurve(self.function, dict(config), self.as_row)

    def profile(self) -> None:
        return None

    def as_row(self, metrics: object) -> Row:
        """A number is the metric; of a mapping all numbers count, and the metric must be among them."""
        given = metrics if isinstance(metrics, Mapping) else {self.metric: metrics}
        numbers = ((str(key), _number(value)) for key, value in given.items())
        row = {key: value for key, value in numbers if value is not None}
        if self.metric not in row:
            expected = f"a number, or a mapping with the number {self.metric!r}"
            raise JobError(f"{self.name} gave {seen(metrics)}; expected {expected}")
        return row


@dataclass(frozen=True, slots=True)
class FunctionCurve:
    """Called anew for every iteration; the function must not depend on what it was asked before."""

    function: Function
    config: dict[str, Scalar]
    as_row: Callable[[object], Row]

    @property
    def length(self) -> None:
        return None

    def rows(self, first: int, last: int) -> Sequence[Row]:
        return [
            self.as_row(self.function(dict(self.config), iteration)) for iteration in range(first, last + 1)
        ]

    def seconds(self, first: int, last: int) -> None:
        return None


class GeneratorCurve:
    """Runs on as far as it is asked and keeps the rows: a generator cannot be wound back.

    After a crash the next question starts the generator from the beginning, as a retry would.
    """

    def __init__(
        self,
        start: Callable[[Configuration], Iterator[object]],
        config: dict[str, Scalar],
        as_row: Callable[[object], Row],
    ) -> None:
        self.length: int | None = None
        self._start = start
        self._config = config
        self._as_row = as_row
        self._rows: list[Row] = []
        self._running: Iterator[object] | None = None

    def rows(self, first: int, last: int) -> Sequence[Row]:
        while self.length is None and len(self._rows) < last:
            self._advance()
        return self._rows[first - 1 : last]

    def seconds(self, first: int, last: int) -> None:
        return None

    def _advance(self) -> None:
        running = self._running or islice(self._start(dict(self._config)), len(self._rows), None)
        self._running = None
        try:
            self._rows.append(self._as_row(next(running)))
        except StopIteration:
            self.length = len(self._rows)
        else:
            self._running = running


def _number(value: object) -> float | None:
    """Of numpy and torch, scalars and arrays without dimensions; None: it is no number."""
    if not isinstance(value, SupportsFloat) or getattr(value, "ndim", None) not in (None, 0):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):  # an array of texts, say
        return None


def _takes(function: Function, *names: str) -> bool:
    try:
        inspect.signature(function).bind(*names)
    except TypeError:
        return False
    except ValueError:  # functions written in C may have no signature to look at
        pass
    return True


def _check_arguments(function: Function, names: tuple[str, ...], name: str) -> None:
    try:
        inspect.signature(function).bind(*names)
    except TypeError as error:
        raise JobError(
            f"{name}: cannot be called as f({', '.join(names)}): {error}; expected {_EXPECTED}"
        ) from None
    except ValueError:
        pass  # functions written in C may have no signature to look at


SYNTHETIC = {"synthetic:hypersched": HyperSchedFunction}


def open_trainable(
    reference: Reference, *, metric: str | None = None, folder: str | Path = "."
) -> CurveSource:
    """Read or import what `reference` names; a relative path starts at `folder`.

    `metric` chooses among the curves of a file, and names the number that a function returns.
    """
    place = located(reference, Path(folder))
    if isinstance(place, str) and place.endswith(CURVE_SUFFIXES):
        place = CurveFile(path=place)
    if isinstance(place, CurveFile):
        return open_curves(place, metric)
    if isinstance(place, str):
        if place in SYNTHETIC:
            return _with_metric(SYNTHETIC[place](), metric)
        if ":" not in place or place.startswith("synthetic:"):
            raise JobError(
                f"trainable is {seen(place)}; expected {possible()}{did_you_mean(place, SYNTHETIC)}"
            )
        return FunctionSource.of(load(place), metric, name=place)
    return FunctionSource.of(place, metric, name=getattr(place, "__qualname__", repr(place)))


def open_curves(file: CurveFile, metric: str | None) -> CurveTable:
    """The table in an `.npz` or `.parquet` file."""
    if not file.path.endswith(CURVE_SUFFIXES):
        raise JobError(f"{file.path}: not a file of curves; expected the ending .npz or .parquet")
    read = read_npz if file.path.endswith(".npz") else read_parquet
    return CurveTable.of(read(file, metric), source=file.path)


def possible() -> str:
    """What may be named as a trainable."""
    return (
        f"{', '.join(SYNTHETIC)}, a file of curves (such as curves.npz or curves.parquet) "
        "or a function (path/to/file.py:function or package.module:function)"
    )


def _with_metric(trainable: CurveSource, metric: str | None) -> CurveSource:
    if metric not in (None, trainable.metric):
        raise JobError(f"metric is {seen(metric)}; this trainable has only {trainable.metric!r}")
    return trainable
