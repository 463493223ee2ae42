"""What training yields: rows are counted once, checked, and the best model is the best that was saved."""

from __future__ import annotations

import math
from typing import TypeGuard

from elastune.core.commands import Best
from elastune.core.events import Progressed
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.errors import InvariantError

DIVERGED = "the training has diverged"


def count(state: State, trial: Trial, event: Progressed) -> str | None:
    """Add rows and checkpoints to a trial; returns what is wrong with them, if anything is."""
    metric = state.terms.metric
    values = trial.values
    error = None
    for row in event.rows:
        if row.iteration != len(values) + 1:
            raise InvariantError(
                f"trial {trial.number} reports iteration {row.iteration} after {len(values)}"
            )
        value = row.metrics.get(metric)
        if not _is_number(value):
            error = _complaint(metric, value, row.iteration, sorted(row.metrics))
            break
        values.append(value)
        state.iterations += 1
    for iteration in event.saved:
        if iteration <= len(values):
            save(state, trial, iteration)
    return error


def save(state: State, trial: Trial, iteration: int) -> None:
    """The checkpoint of that iteration is durable."""
    trial.saved = max(trial.saved, iteration)
    if not iteration:
        return
    value = trial.values[iteration - 1]
    if state.better(value, None if state.best is None else state.best.metric):
        state.best = Best(trial=trial.number, iteration=iteration, metric=value)


def _is_number(value: object) -> TypeGuard[float]:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


def _complaint(metric: str, value: object, iteration: int, reported: list[str]) -> str:
    if value is None:
        names = ", ".join(reported) or "nothing"
        return f"iteration {iteration} reported no {metric!r}, only {names}; the job's metric is {metric!r}"
    if not isinstance(value, float):
        return f"{metric} is {value!r} after iteration {iteration}; expected a finite number"
    return f"{metric} is {value} after iteration {iteration}; {DIVERGED}"
