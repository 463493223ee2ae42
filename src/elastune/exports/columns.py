"""Lines as tables: columns by name, all of one length. What every kind of file and frame is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from elastune.exports.lines import RowLine, TrialLine

Columns = dict[str, list[object]]

OF_TRIALS = (
    "trial", "status", "iterations", "final", "best", "best_iteration", "started_s", "ended_s", "seconds",
    "slot_seconds", "cost", "slots", "nodes", "parent", "crashes", "error", "checkpoint",
)  # fmt: skip
OF_ROWS = ("trial", "iteration", "at_s")
CONFIG = "config/"
METRIC = "metric/"


def trial_columns(lines: Sequence[TrialLine]) -> Columns:
    """One line per trial; hyperparameters are `config/<name>`, None where a trial has none of that name."""
    columns: Columns = {name: [getattr(line, name) for line in lines] for name in OF_TRIALS}
    columns["nodes"] = [" ".join(map(str, line.nodes)) or None for line in lines]
    names = dict.fromkeys(name for line in lines for name in line.config)
    return columns | {f"{CONFIG}{name}": [line.config.get(name) for line in lines] for name in names}


def metric_names(rows: Sequence[RowLine]) -> list[str]:
    """By name: a journal keeps no other order."""
    return sorted({name for row in rows for name in row.metrics})


def metric_column(name: str) -> str:
    """Its own name, unless that is one of ours."""
    return f"{METRIC}{name}" if name in OF_ROWS else name


def row_columns(rows: Sequence[RowLine]) -> Columns:
    """One line per iteration; a metric that was not reported is NaN."""
    columns: Columns = {name: [getattr(row, name) for row in rows] for name in OF_ROWS}
    for name in metric_names(rows):
        columns[metric_column(name)] = [row.metrics.get(name, math.nan) for row in rows]
    return columns


def uniform(column: list[object]) -> list[object]:
    """Of one type, as files with types want it: numbers together, and else what is mixed as text."""
    types = {type(value) for value in column if value is not None}
    if len(types) <= 1:
        return column
    if types == {int, float}:
        return [None if value is None else as_float(value) for value in column]
    return [None if value is None else str(value) for value in column]


def as_float(value: object) -> float:
    """A whole number beyond all floats is infinite; what is no number at all is NaN."""
    if not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
