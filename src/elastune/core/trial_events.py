"""Applies events of trials and gangs: rows are checked and counted once, the best model is the best saved."""

from __future__ import annotations

import math
from typing import TypeGuard

from elastune.core import events as ev
from elastune.core import gangs, hopping, scheduling
from elastune.core.commands import Best, Fork, Sample
from elastune.core.state import State, Step
from elastune.core.trials import Activity, Phase, Trial
from elastune.errors import InvariantError
from elastune.model.continuing import Continuing
from elastune.model.ids import TrialId
from elastune.model.rows import Rows
from elastune.wording import plural

DIVERGED = "the training has diverged"
_RETURNED_AT_ONCE = "the trainable returned before its first iteration"
# A trial whose gang is killed more often than this crashes.
MAX_KILLS = 3


def count(state: State, trial: Trial, event: ev.Progressed) -> str | None:
    """Add rows and checkpoints to a trial; returns what is wrong with them, if anything."""
    metric, values, error = state.terms.metric, trial.values, None
    may_skip = state.terms.continuing is Continuing.CALLING
    rows = Rows(event.rows, metric)
    is_plain = bool(rows.finite) and rows.follow(len(values))
    if is_plain:
        values += rows.finite
        state.iterations += len(rows.finite)
    for row in event.rows if not is_plain else ():
        if row.iteration != len(values) + 1 and not (may_skip and row.iteration > len(values)):
            raise InvariantError(
                f"trial {trial.number} reports iteration {row.iteration} after {len(values)}"
            )
        value = row.metrics.get(metric)
        if not _is_number(value):
            error = _describe_value(metric, value, row.iteration, sorted(row.metrics))
            break
        new = row.iteration - len(values)  # a call reports its last iteration only, which stands for all
        values.extend([value] * new)
        state.iterations += new
    state.furthest = max(state.furthest, len(values))
    for iteration in event.saved:
        if iteration <= len(values):
            save(state, trial, iteration)
    return error


def save(state: State, trial: Trial, iteration: int) -> None:
    """The checkpoint of this iteration is durable."""
    trial.saved = max(trial.saved, iteration)
    if not iteration:
        return
    value = trial.values[iteration - 1]
    if state.better(value, None if state.best is None else state.best.metric):
        state.best = Best(trial=trial.number, iteration=iteration, metric=value)


def _is_number(value: object) -> TypeGuard[float]:
    if type(value) is float:  # nearly always, and a call takes twice as long
        return value - value == 0.0
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


def _describe_value(metric: str, value: object, iteration: int, reported: list[str]) -> str:
    if value is None:
        names = ", ".join(reported) or "nothing"
        return f"iteration {iteration} reported no {metric!r}, only {names}; the job's metric is {metric!r}"
    if not isinstance(value, float):
        return f"{metric} is {value!r} after iteration {iteration}; expected a finite number"
    return f"{metric} is {value} after iteration {iteration}; {DIVERGED}"


def sampled(step: Step, event: ev.TrialsSampled) -> None:
    state = step.state
    for number, config in event.trials:
        if number in state.trials:
            raise InvariantError(f"trial {number} is sampled twice")
        state.sampling.pop(number, None)
        trial = state.trials[number] = Trial(number, config)
        trial.given = state.changes.given.pop(number, None) is not None
        if number in state.forks:
            trial.parent, trial.inherited = state.forks.pop(number)
            trial.values = state.trials[trial.parent].values[: trial.inherited]
            trial.saved = trial.inherited
        if state.ended is not None:  # the answer came after the end
            trial.step(Phase.STOPPED)
            state.changes.cut[number] = None
    if event.exhausted:
        state.exhausted = True
        state.sampling.clear()
        state.forks.clear()
        state.changes.given.clear()


def request_trials(step: Step, fresh: int, parents: tuple[TrialId, ...]) -> None:
    """Request new trials: fresh ones, and one forked from each parent."""
    state = step.state
    if fresh:
        first = len(state.trials) + len(state.sampling)
        asked = tuple(TrialId(first + i) for i in range(fresh))
        state.sampling.update(dict.fromkeys(asked))
        given = tuple(ev.Sampled(*each) for each in zip(asked, state.changes.queued, strict=False))
        state.changes.given.update(given)
        del state.changes.queued[: len(given)]
        step.emit(Sample(trials=asked, given=given))
    for parent in parents:
        _fork(step, state.trial(parent))


def _fork(step: Step, parent: Trial) -> None:
    """Request a trial that continues from the parent's last checkpoint."""
    state = step.state
    if not parent.saved:
        raise InvariantError(f"trial {parent.number} has no checkpoint to fork from")
    number = TrialId(len(state.trials) + len(state.sampling))
    state.sampling[number] = None
    state.forks[number] = parent.number, parent.saved
    step.emit(Fork(trial=number, parent=parent.number, iteration=parent.saved))


def started(step: Step, event: ev.GangStarted) -> None:
    trial = _present(step.state, event.trial, event.generation)
    if trial is not None:
        gangs.turn_to(step, trial, Activity.TRAINING)
        trial.step(Phase.RUNNING)
        _note_repetition(step, event)


def _note_repetition(step: Step, event: ev.GangStarted) -> None:
    """The first one of a run, and the first one with other metrics."""
    state, topics = step.state, []
    if event.repeated and "repeat" not in state.noted:
        topics.append("repeat")
        iterations = plural(event.repeated, "iteration")
        step.note("repeat", f"trial {event.trial} has no saved model: it trained {iterations} again")
    if event.changed and "changed" not in state.noted:
        topics.append("changed")
        text = f"trial {event.trial} did not repeat itself when it was trained again: {event.changed}"
        step.note("changed", f"{text}; metrics of trials that cannot be saved may differ from their models")
    state.noted |= set(topics)


def progressed(step: Step, event: ev.Progressed) -> Trial | None:
    """Returns the trial if its gang waits for an order."""
    trial = _present(step.state, event.trial, event.generation)
    if trial is None:
        return None
    error = count(step.state, trial, event)
    match event:
        case ev.TrialCrashed():
            _crashed(step, trial, error or event.error)
        case ev.GangLost():
            _lost(step, trial, error or event.error, model_lost=event.model_lost)
        case _ if error is not None:
            _fail(step, trial, error)
            gangs.stop(step, trial)
        case ev.VisitEnded():
            hopping.visited(step, trial, event)
        case ev.LeaseEnded() if trial.visit is not None:  # it returned: the iteration does not count
            trial.returned = True
            if not trial.values:
                _fail(step, trial, _RETURNED_AT_ONCE)
            gangs.stop(step, trial)
        case ev.LeaseEnded():
            _wait(step, trial, event.reason)
            return trial
    return None


def _wait(step: Step, trial: Trial, reason: ev.LeaseEnd) -> None:
    gangs.turn_to(step, trial, Activity.WAITING)
    if reason is ev.LeaseEnd.RETURNED:
        trial.returned = True
    elif reason is ev.LeaseEnd.TIME and trial.lease is not None:
        trial.late_after_s = trial.lease.until_s


def paused(step: Step, event: ev.TrialPaused) -> Trial | None:
    """Returns the trial if its gang waits for an order."""
    trial = _present(step.state, event.trial, event.generation)
    if trial is None:
        return None
    save(step.state, trial, trial.iteration)
    step.state.observed_speed.save.add(step.state.now_s - trial.since_s)
    if event.stays:
        gangs.turn_to(step, trial, Activity.WAITING)
        return trial
    gangs.dissolve(step, trial)
    if trial.returned and not trial.values:
        _fail(step, trial, _RETURNED_AT_ONCE)
    scheduling.wait_again(step, trial)
    return None


def _present(state: State, number: TrialId, generation: int) -> Trial | None:
    """The trial, if the event is of its present gang."""
    trial = state.trial(number)
    return trial if trial.generation == generation and trial.activity is not None else None


def _lost(step: Step, trial: Trial, error: str, *, model_lost: bool) -> None:
    """The trial is to blame only if it happens repeatedly, for lack of memory say; never for a lost model."""
    if model_lost:
        if (progress := step.state.hop_progress.get(trial.number)) is not None:
            progress.at = None
    else:
        trial.killed += 1
    if trial.killed > MAX_KILLS:
        _crashed(step, trial, error)
        return
    step.note("worker", f"trial {trial.number} goes on from iteration {trial.saved}: {error}")
    gangs.dissolve(step, trial)
    scheduling.wait_again(step, trial)


def _crashed(step: Step, trial: Trial, error: str) -> None:
    trial.crashes += 1
    if trial.crashes > step.state.terms.retries:
        _fail(step, trial, error)
    gangs.dissolve(step, trial)
    scheduling.wait_again(step, trial)


def _fail(step: Step, trial: Trial, error: str) -> None:
    trial.step(Phase.FAILED)
    trial.error, trial.failed_after = error, trial.iteration
    step.failed = trial
    step.note("failed", f"trial {trial.number}: {error}")
