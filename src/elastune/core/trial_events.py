"""What training yields: rows are counted once, checked, and the best model is the best that was saved.

News of trials and their gangs, made part of the state.
"""

from __future__ import annotations

import math
from typing import TypeGuard

from elastune.core import gangs, hopping
from elastune.core import hop_rounds as stowing
from elastune.core import scheduling as seating
from elastune.core.commands import Best, Fork, Sample
from elastune.core.events import (
    GangLost,
    GangStarted,
    LeaseEnd,
    LeaseEnded,
    Progressed,
    TrialCrashed,
    TrialPaused,
    TrialsSampled,
    VisitEnded,
)
from elastune.core.state import State, Step
from elastune.core.trials import Activity, Phase, Trial
from elastune.errors import InvariantError
from elastune.model.ids import TrialId

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


_RETURNED_AT_ONCE = "the trainable returned before its first iteration"
MOST_KILLS = 3


def sampled(step: Step, event: TrialsSampled) -> None:
    state = step.state
    for number, config in event.trials:
        if number in state.trials:
            raise InvariantError(f"trial {number} is sampled twice")
        state.sampling.pop(number, None)
        trial = state.trials[number] = Trial(number, config)
        if number in state.forks:
            _inherit(state, trial, *state.forks.pop(number))
        if state.ended is not None:  # the answer came too late
            trial.step(Phase.STOPPED)
    if event.exhausted:
        state.exhausted = True
        state.sampling.clear()
        state.forks.clear()


def ask_for(step: Step, fresh: int, parents: tuple[TrialId, ...]) -> None:
    """Have new trials drawn: fresh ones, and one forked from each of the parents."""
    state = step.state
    if fresh:
        first = len(state.trials) + len(state.sampling)
        asked = tuple(TrialId(first + i) for i in range(fresh))
        state.sampling.update(dict.fromkeys(asked))
        step.tell(Sample(trials=asked))
    for parent in parents:
        _fork(step, state.trial(parent))


def _fork(step: Step, parent: Trial) -> None:
    """A new trial that goes on from the parent's last checkpoint."""
    state = step.state
    if not parent.saved:
        raise InvariantError(f"trial {parent.number} has no checkpoint to fork from")
    number = TrialId(len(state.trials) + len(state.sampling))
    state.sampling[number] = None
    state.forks[number] = parent.number, parent.saved
    step.tell(Fork(trial=number, parent=parent.number, iteration=parent.saved))


def _inherit(state: State, trial: Trial, parent: TrialId, iteration: int) -> None:
    trial.parent, trial.inherited = parent, iteration
    trial.values = state.trials[parent].values[:iteration]
    trial.saved = iteration


def started(step: Step, event: GangStarted) -> None:
    trial = _present(step.state, event.trial, event.generation)
    if trial is not None:
        gangs.turn_to(step, trial, Activity.TRAINING)
        trial.step(Phase.RUNNING)


def progressed(step: Step, event: Progressed) -> Trial | None:
    """Returns the trial if its gang waits to be told what to do."""
    trial = _present(step.state, event.trial, event.generation)
    if trial is None:
        return None
    error = count(step.state, trial, event)
    match event:
        case TrialCrashed():
            _crashed(step, trial, error or event.error)
        case GangLost():
            _lost(step, trial, error or event.error, model_lost=event.model_lost)
        case _ if error is not None:
            _fail(step, trial, error)
            gangs.stop(step, trial)
        case VisitEnded():
            hopping.visited(step, trial, event)
        case LeaseEnded() if trial.visit is not None:
            _returned_on_visit(step, trial)
        case LeaseEnded():
            _wait(step, trial, event.reason)
            return trial
    return None


def _wait(step: Step, trial: Trial, reason: LeaseEnd) -> None:
    gangs.turn_to(step, trial, Activity.WAITING)
    if reason is LeaseEnd.RETURNED:
        trial.returned = True
    elif reason is LeaseEnd.TIME and trial.lease is not None:
        trial.late_after_s = trial.lease.until_s


def _returned_on_visit(step: Step, trial: Trial) -> None:
    """There is nothing left to learn. What was begun of this iteration does not count."""
    trial.returned = True
    if not trial.values:
        _fail(step, trial, _RETURNED_AT_ONCE)
    gangs.stop(step, trial)


def paused(step: Step, event: TrialPaused) -> None:
    trial = _present(step.state, event.trial, event.generation)
    if trial is None:
        return
    save(step.state, trial, trial.iteration)
    step.state.observed_speed.save.add(step.state.now_s - trial.since_s)
    gangs.dissolve(step, trial)
    if trial.returned and not trial.values:
        _fail(step, trial, _RETURNED_AT_ONCE)
    seating.wait_again(step, trial)


def _present(state: State, number: TrialId, generation: int) -> Trial | None:
    """The trial, if the news is of its present gang."""
    trial = state.trial(number)
    return trial if trial.generation == generation and trial.activity is not None else None


def _lost(step: Step, trial: Trial, error: str, *, model_lost: bool) -> None:
    """Not the trial's fault, unless it happens to this trial again and again: some need too much memory. A
    model that went with its node says nothing about the trial."""
    if model_lost:
        stowing.lose_model(step.state, trial)
    else:
        trial.killed += 1
    if trial.killed > MOST_KILLS:
        _crashed(step, trial, error)
        return
    step.note("worker", f"trial {trial.number} goes on from iteration {trial.saved}: {error}")
    gangs.dissolve(step, trial)
    seating.wait_again(step, trial)


def _crashed(step: Step, trial: Trial, error: str) -> None:
    trial.crashes += 1
    if trial.crashes > step.state.terms.retries:
        _fail(step, trial, error)
    gangs.dissolve(step, trial)
    seating.wait_again(step, trial)


def _fail(step: Step, trial: Trial, error: str) -> None:
    trial.step(Phase.FAILED)
    trial.error = error
    step.note("failed", f"trial {trial.number}: {error}")
