"""Recorded learning curves as a trainable: the configurations of a table, replayed.

Decides how a configuration finds its curve, what the recorded seconds say about speed, and how a job chooses
among the metrics, tasks and parameters of a file. Which arrays or columns those are is left to the readers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

import numpy.typing as npt

from elastune.curves.source import Row
from elastune.errors import JobError
from elastune.model.configuration import Configuration, Scalar, flattened
from elastune.model.distributions import Constant, LogNormal
from elastune.model.profile import Profile, Speedup, pooled_variation
from elastune.wording import did_you_mean, seen, several

Values = tuple[Scalar, ...]
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a reader found: per configuration its values, its metric and its seconds per iteration.

    A metric of NaN: the training diverged; seconds of NaN: not measured.
    """

    metric: str
    parameters: tuple[str, ...]
    values: Sequence[Values]
    curves: Sequence[list[float]]
    seconds: Sequence[list[float]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCurve:
    metric: str
    values: list[float]
    measured: list[float] | None

    @property
    def length(self) -> int:
        return len(self.values)

    def rows(self, first: int, last: int) -> Sequence[Row]:
        metric = self.metric
        return [{metric: value} for value in self.values[first - 1 : last]]

    def seconds(self, first: int, last: int) -> Sequence[float] | None:
        return None if self.measured is None else self.measured[first - 1 : last]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveTable:
    """`found`: the curves of each configuration, several if it was trained more than once."""

    source: str
    metric: str
    parameters: tuple[str, ...]
    table: tuple[Configuration, ...]
    found: dict[Values, list[TableCurve]]
    seconds: Sequence[list[float]] | None
    mode: None = None
    space: None = None

    @classmethod
    def of(cls, recording: Recording, *, source: str) -> CurveTable:
        """A configuration without an iteration was never run and is left out."""
        found: dict[Values, list[TableCurve]] = {}
        measured = None if recording.seconds is None else _completed(recording.seconds)
        for position, values in enumerate(recording.values):
            if curve := recording.curves[position]:
                seconds = None if measured is None else measured[position]
                one = TableCurve(metric=recording.metric, values=curve, measured=seconds)
                found.setdefault(values, []).append(one)
        if not found:
            raise JobError(f"{source}: no configuration has an iteration of {recording.metric!r}")
        return cls(
            source=source,
            metric=recording.metric,
            parameters=recording.parameters,
            table=tuple(dict(zip(recording.parameters, values, strict=True)) for values in found),
            found=found,
            seconds=recording.seconds,
        )

    @property
    def longest(self) -> int:
        return max(curve.length for curves in self.found.values() for curve in curves)

    def curve(self, config: Configuration, seed: tuple[int, int]) -> TableCurve:
        """If a configuration was trained more than once, the seed chooses the training."""
        flat = flattened(config)
        try:
            repeats = self.found[tuple([flat[name] for name in self.parameters])]
        except (KeyError, TypeError):
            wanted = {name: flat.get(name) for name in self.parameters}
            raise JobError(
                f"{self.source}: {seen(wanted)} is none of its {len(self.table):,} configurations; "
                "take them from the table (search.sampler: table), or choose among its values in `space`"
            ) from None
        return repeats[sum(seed) % len(repeats)]

    def profile(self) -> Profile | None:
        """Mean and spread over configurations, noise within each; no speedup, which is not recorded."""
        groups = [_measured(each) for each in self.seconds or ()]
        groups = [group for group in groups if group and max(group) > 0.0]
        if not groups:
            return None
        means = [fmean(group) for group in groups]
        mean, variation = fmean(means), pooled_variation(groups)
        return Profile(
            iteration=LogNormal(mean, mean * variation) if variation else Constant(mean),
            speedup=Speedup.of({}),
            spread=pstdev(means) / mean,
        )


def _completed(seconds: Sequence[list[float]]) -> list[list[float]] | None:
    """Iterations that were not measured take the mean of their configuration, or else of all."""
    everything = [fmean(known) for each in seconds if (known := _measured(each))]
    if not everything:
        return None
    completed: list[list[float]] = []
    for each in seconds:
        fill = fmean(_measured(each) or everything)
        completed.append([fill if math.isnan(s) else s for s in each])
    return completed


def _measured(seconds: list[float]) -> list[float]:
    return [value for value in seconds if not math.isnan(value)]


def choose_metric(metrics: Sequence[str], wanted: str | None) -> str:
    """The metric that the job names; without a name, the only one."""
    if not metrics:
        raise JobError("there are no curves in it")
    return str(_choose("metric", metrics, wanted, "one of the curves"))


def choose_task(tasks: Sequence[str | int], wanted: str | int | None) -> str | int:
    """The task that the job names; without a name, the only one."""
    return _choose("task", tasks, wanted, "one of")


def _choose(key: str, choices: Sequence[str | int], wanted: str | int | None, expected: str) -> str | int:
    if wanted is None and len(choices) == 1:
        return choices[0]
    if wanted is None or wanted not in choices:
        given, names = "missing" if wanted is None else repr(wanted), [str(each) for each in choices]
        hint = did_you_mean(wanted, names)
        raise JobError(f"{key} is {given}; expected {expected}: {several(names)}{hint}")
    return wanted


def choose_parameters(columns: Collection[str], wanted: Sequence[str] | None) -> list[str]:
    """The hyperparameters that the job names, or all."""
    for name in wanted or ():
        if name not in columns:
            hint = did_you_mean(name, columns)
            raise JobError(f"parameters has {name!r}; expected some of: {several(columns)}{hint}")
    return list(wanted or columns)


def to_scalars(column: Array | Iterable[Scalar]) -> list[Scalar]:
    """Plain values. NaN, which equals nothing and is not JSON, becomes None: does not apply."""
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    return [None if isinstance(value, float) and math.isnan(value) else value for value in values]
