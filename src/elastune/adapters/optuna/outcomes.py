"""The trials of a run as Optuna's, for its study."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from optuna.trial import FrozenTrial, TrialState, create_trial

from elastune.adapters.optuna.objective_space import ObjectiveSpace
from elastune.adapters.optuna.objectives import ATTRIBUTE, METRIC, STEP
from elastune.api.results import load_run
from elastune.history.result import RunResult
from elastune.history.trials import RowEntry, TrialEntry
from elastune.model.configuration import flattened, scalar
from elastune.runs.results import read_results
from elastune.space.function_space import SuggestingTrial


def frozen_trials(
    result: RunResult, *, folder: str | Path, space: ObjectiveSpace
) -> tuple[list[FrozenTrial], list[str]]:
    """In the order of their numbers; and the errors of those that failed."""
    found = load_run(str(result.run), folder=folder).found
    read = read_results(found)
    rows: dict[int, list[RowEntry]] = {}
    for row in read.rows:
        rows.setdefault(row.trial, []).append(row)
    began = found.record.created_utc.astimezone().replace(tzinfo=None)
    complete = {entry.trial for entry in read.trials if entry.status == "finished"}
    if not complete and result.best is not None:  # a limit ended the run: its best model is its result
        complete = {result.best.trial}
    trials = [
        _frozen(entry, rows.get(entry.trial, []), space, began, is_complete=entry.trial in complete)
        for entry in read.trials
    ]
    errors = [entry.error or "no reason was recorded" for entry in read.trials if entry.status == "failed"]
    return trials, errors


def _frozen(
    entry: TrialEntry,
    rows: Sequence[RowEntry],
    space: ObjectiveSpace,
    began: datetime.datetime,
    *,
    is_complete: bool,
) -> FrozenTrial:
    asked = SuggestingTrial(lambda name, _: scalar(entry.config[name]))
    space(asked)
    ordered = sorted(rows, key=lambda row: row.iteration)
    state = TrialState.FAIL
    if ordered and entry.status != "failed":
        state = TrialState.COMPLETE if is_complete else TrialState.PRUNED
    last = ordered[-1].metrics if ordered else {}
    trial = create_trial(
        state=state,
        value=None if state is TrialState.FAIL else last.get(METRIC),
        params=dict(flattened(asked.params)),
        distributions=dict(asked.distributions),
        user_attrs={
            name.removeprefix(ATTRIBUTE): value for name, value in last.items() if name.startswith(ATTRIBUTE)
        }
        | ({"error": entry.error} if entry.error is not None else {}),
        intermediate_values={
            int(row.metrics[STEP]): row.metrics[METRIC] for row in ordered if STEP in row.metrics
        },
    )
    if entry.started_s is not None:
        trial.datetime_start = began + datetime.timedelta(seconds=entry.started_s)
        trial.datetime_complete = began + datetime.timedelta(seconds=entry.ended_s or entry.started_s)
    return trial
