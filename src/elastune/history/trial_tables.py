"""Tables of a run's trials and rows as columns by name, all of one length, for files and DataFrames.

The entries come from a recorder, which a journal or a running run feeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.core.trials import Trial
from elastune.history.recorder import Recorder
from elastune.history.result import phase_of
from elastune.history.trials import HistoryTerms, RowEntry, TrialEntry, as_float
from elastune.model.configuration import flattened

Columns = dict[str, list[object]]

OF_TRIALS = (
    "trial", "status", "iterations", "final", "best", "best_iteration", "best_reported", "started_s",
    "ended_s", "seconds", "slot_seconds", "cost", "slots", "nodes", "parent", "crashes", "error",
    "checkpoint",
)  # fmt: skip
OF_ROWS = ("trial", "iteration", "at_s")
CONFIG = "config/"
METRIC = "metric/"


def trial_columns(lines: Sequence[TrialEntry]) -> Columns:
    """One line per trial; hyperparameters are `config/<name>`, None if a trial has none of that name. Members
    of a group are columns of their own (`config/optimizer.lr`), a list is JSON text."""
    columns: Columns = {name: [getattr(line, name) for line in lines] for name in OF_TRIALS}
    columns["nodes"] = [" ".join(map(str, line.nodes)) or None for line in lines]
    configs = [flattened(line.config) for line in lines]
    names = dict.fromkeys(name for config in configs for name in config)
    return columns | {f"{CONFIG}{name}": [config.get(name) for config in configs] for name in names}


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
    best = record.trials.histories[trial.number].best
    slots = record.gangs.slot_time(trial.number, state.now_s)
    slot_seconds = 0.0 if slots is None else slots.slot_seconds
    return TrialEntry(
        trial=trial.number,
        status=phase_of(state, trial).value,
        iterations=max(curve.last, trial.inherited),
        final=curve.values.get(curve.last),
        best=None if best is None else best.value,
        best_iteration=None if best is None else best.iteration,
        best_reported=_best(state, curve.values.values()),
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


def _best(state: State, values: Iterable[float]) -> float | None:
    """The best finite value."""
    best: float | None = None
    for value in values:
        if math.isfinite(value) and state.better(value, best):
            best = value
    return best
