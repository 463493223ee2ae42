"""Choosing among what a file of curves holds, the same for every format."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy.typing as npt

from elastune.errors import JobError
from elastune.space import Scalar
from elastune.wording import did_you_mean, several


def choose_metric(metrics: Sequence[str], wanted: str | None) -> str:
    """The metric that the job names; it need not name the only one."""
    if not metrics:
        raise JobError("there are no curves in it")
    if wanted is None:
        if len(metrics) == 1:
            return metrics[0]
        raise JobError(f"metric is missing; expected one of the curves: {several(metrics)}")
    if wanted not in metrics:
        hint = did_you_mean(wanted, metrics)
        raise JobError(f"metric is {wanted!r}; expected one of the curves: {several(metrics)}{hint}")
    return wanted


def choose_task(tasks: Sequence[str | int], wanted: str | int | None) -> str | int:
    """The task that the job names; it need not name the only one."""
    if wanted is None and len(tasks) == 1:
        return tasks[0]
    if wanted is None or wanted not in tasks:
        seen = "missing" if wanted is None else repr(wanted)
        hint = did_you_mean(wanted, map(str, tasks))
        raise JobError(f"task is {seen}; expected one of: {several(map(str, tasks))}{hint}")
    return wanted


def choose_parameters(columns: Collection[str], wanted: Sequence[str] | None) -> list[str]:
    """The hyperparameters: those that the job names, or all that there are."""
    for name in wanted or ():
        if name not in columns:
            hint = did_you_mean(name, columns)
            raise JobError(f"parameters has {name!r}; expected some of: {several(columns)}{hint}")
    return list(wanted or columns)


def to_scalars(column: npt.NDArray[Any] | Iterable[Scalar]) -> list[Scalar]:
    """Plain values. NaN, which equals nothing and is not JSON, becomes None: the value does not apply."""
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    return [None if isinstance(value, float) and math.isnan(value) else value for value in values]
