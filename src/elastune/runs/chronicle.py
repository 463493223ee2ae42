"""The trials of a run as lines of a table, from its recorder; of a journal, or of a run that goes on."""

from __future__ import annotations

import math
from collections.abc import Mapping

from elastune.core import RunTerms, State
from elastune.core.trials import Trial
from elastune.exports import TrialLine
from elastune.runs.history.recorder import Recorder
from elastune.runs.history.terms import HistoryTerms
from elastune.runs.result import phase_of


def table_recorder(terms: RunTerms) -> Recorder:
    """One that keeps what tables need."""
    return Recorder(HistoryTerms.of(terms), for_tables=True)


def trial_line(record: Recorder, state: State, trial: Trial, checkpoint: str | None = None) -> TrialLine:
    """A trial as it stands. `checkpoint`: where its newest one is."""
    curve = record.rows.curve(trial.number)
    best = _best(state, curve.values)
    slots = record.gangs.slot_time(trial.number, state.now_s)
    slot_seconds = 0.0 if slots is None else slots.slot_seconds
    return TrialLine(
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
