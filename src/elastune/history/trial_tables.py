"""Tables of a run's trials and rows as columns by name, all of one length, for files and DataFrames.

The entries come from a recorder, which a journal or a running run feeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.core.trials import Trial
from elastune.history.recorder import Recorder
from elastune.history.result import phase_of
from elastune.history.trials import HistoryTerms, RowEntry, TrialEntry, as_float

Columns = dict[str, list[object]]

OF_TRIALS = (
    "trial", "status", "iterations", "final", "best", "best_iteration", "started_s", "ended_s", "seconds",
    "slot_seconds", "cost", "slots", "nodes", "parent", "crashes", "error", "checkpoint",
)  # fmt: skip
OF_ROWS = ("trial", "iteration", "at_s")
CONFIG = "config/"
METRIC = "metric/"


def trial_columns(lines: Sequence[TrialEntry]) -> Columns:
    """One line per trial; hyperparameters are `config/<name>`, None if a trial has none of that name."""
    columns: Columns = {name: [getattr(line, name) for line in lines] for name in OF_TRIALS}
    columns["nodes"] = [" ".join(map(str, line.nodes)) or None for line in lines]
    names = dict.fromkeys(name for line in lines for name in line.config)
    return columns | {f"{CONFIG}{name}": [line.config.get(name) for line in lines] for name in names}


def metric_names(rows: Sequence[RowEntry]) -> list[str]:
    """Sorted: a journal keeps no other order."""
    return sorted({name for row in rows for name in row.metrics})


def metric_column(name: str) -> str:
    """The metric's name, with a prefix if a column of that name exists."""
    return f"{METRIC}{name}" if name in OF_ROWS else name


def row_columns(rows: Sequence[RowEntry]) -> Columns:
    """One line per iteration; a metric that was not reported is NaN."""
    columns: Columns = {name: [getattr(row, name) for row in rows] for name in OF_ROWS}
    for name in metric_names(rows):
        columns[metric_column(name)] = [row.metrics.get(name, math.nan) for row in rows]
    return columns


def uniform(column: list[object]) -> list[object]:
    """One type per column, for typed files: integers and floats become floats, other mixtures text."""
    types = {type(value) for value in column if value is not None}
    if len(types) <= 1:
        return column
    if types == {int, float}:
        return [None if value is None else as_float(value) for value in column]
    return [None if value is None else str(value) for value in column]


def table_recorder(terms: RunTerms) -> Recorder:
    return Recorder(HistoryTerms.of(terms), for_tables=True)


def trial_line(record: Recorder, state: State, trial: Trial, checkpoint: str | None = None) -> TrialEntry:
    """`checkpoint` is the path of the newest one."""
    curve = record.rows.curve(trial.number)
    best = _best(state, curve.values)
    slots = record.gangs.slot_time(trial.number, state.now_s)
    slot_seconds = 0.0 if slots is None else slots.slot_seconds
    return TrialEntry(
        trial=trial.number,
        status=phase_of(state, trial).value,
        iterations=max(curve.last, trial.inherited),
        final=curve.values.get(curve.last),
        best=None if best is None else curve.values[best],
        best_iteration=best,
        started_s=None if slots is None else slots.started_s,
        ended_s=None if slots is None else slots.ended_s,
        seconds=0.0 if slots is None else slots.seconds,
        slot_seconds=slot_seconds,
        cost=slot_seconds * state.terms.cluster.slot_usd_per_s,
        slots=None if slots is None else len(slots.gang),
        nodes=() if slots is None else tuple(dict.fromkeys(slot.node for slot in slots.gang)),
        parent=trial.parent,
        crashes=trial.crashes,
        error=trial.error,
        checkpoint=checkpoint,
        config=trial.config,
    )


def _best(state: State, values: Mapping[int, float]) -> int | None:
    """The first iteration with the best finite value."""
    best: int | None = None
    for iteration, value in values.items():
        if math.isfinite(value) and state.better(value, None if best is None else values[best]):
            best = iteration
    return best
