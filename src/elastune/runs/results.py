"""The results of a run, finished or not, from its journal: every trial, every row, and the models it kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from elastune.core.events import Progressed
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.errors import ElastuneError, ExecutionError, JobError
from elastune.exports.files import RunHead, RunNews
from elastune.exports.saved_model import SavedModel, saved_model
from elastune.history.result import BestTrial, best_of
from elastune.history.trial_tables import table_recorder, trial_line
from elastune.history.trials import RowEntry, TrialEntry, without_lost
from elastune.job.job import Job
from elastune.journal.codec import decode, event_of, has_rows
from elastune.journal.records import RunRecord, RuntimeKind
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.runs.reopening import replaying, setup_of, taken_in
from elastune.runs.run_files import open_store
from elastune.wording import several


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    head: RunHead
    trials: tuple[TrialEntry, ...]
    rows: tuple[RowEntry, ...]
    ending: str | None  # None: the run has not ended
    best: TrialEntry | None  # the trial of the best checkpointed model

    def as_news(self) -> RunNews:
        return RunNews(trials=self.trials, rows=self.rows, ending=self.ending, best=self.best)


def read_results(found: FoundRun) -> Results:
    """Replays the run, because only the core knows whether a trial was stopped or has finished."""
    journal = Journal.open(found.journal, read_only=True)
    record = found.record
    setup = setup_of(record, journal)
    core = setup.make_core(record.seed)
    state = core.state
    recorder = table_recorder(setup.terms)
    with replaying(state, record.run):
        for entry in journal.read(record.run):
            event = event_of(entry)
            recorder.take(event, core.handle(event))
    kept = _checkpoints(found, setup.job, state)
    lines = {
        number: trial_line(recorder, state, trial, kept.get(number)) for number, trial in state.trials.items()
    }
    return Results(
        head=head_of(record, state),
        trials=tuple(lines[number] for number in sorted(lines)),
        rows=tuple(without_lost(recorder.rows.fresh())),
        ending=None if state.ended is None else state.ended.value,
        best=None if state.best is None else lines[state.best.trial],
    )


def read_rows(found: FoundRun) -> Iterator[RowEntry]:
    """Every row as reported, in the order of the journal, without a replay."""
    for entry in Journal.open(found.journal, read_only=True).read(found.record.run):
        if has_rows(entry.event_line) and isinstance(event := decode(entry.event_line), Progressed):
            for iteration, at_s, metrics in event.rows:
                yield RowEntry(event.trial, iteration, at_s, metrics, event.generation)


def head_of(record: RunRecord, state: State) -> RunHead:
    return RunHead(
        run=record.run,
        name=record.name,
        policy=record.policy,
        seed=record.seed,
        body=record.body.value,
        created_utc=record.created_utc,
        metric=state.terms.metric,
        mode=state.terms.mode,
    )


def _checkpoints(found: FoundRun, job: Job, state: State) -> dict[int, str]:
    """The newest kept checkpoint of each trial. In a remote storage only the best one, because listing takes
    long and may cost money."""
    if found.record.body is not RuntimeKind.RAY:
        return {}
    best = {} if state.best is None else {state.best.trial: state.best.iteration}
    try:
        store = open_store(job, found.folder)
        newest = dict(store.list()) if store.is_local else {}
    except ElastuneError:
        return {}
    return {trial: store.path(trial, iteration) for trial, iteration in (newest | best).items()}


def find_best(found: FoundRun) -> BestTrial | None:
    """The best model of a run so far: the best value of the metric that has a checkpoint."""
    state, job = _state_of(found)
    best = best_of(state)
    if best is None or found.record.body is not RuntimeKind.RAY:
        return best
    return saved_model(best, open_store(job, found.folder).path(best.trial, best.iterations))


def find_model(found: FoundRun, number: int) -> SavedModel:
    """The newest checkpoint of a trial that is kept."""
    run = found.record.run
    if found.record.body is not RuntimeKind.RAY:
        raise JobError(f"run {run} is simulated and has no models; expected a real run")
    state, job = _state_of(found)
    trial = next((each for each in state.trials.values() if each.number == number), None)
    if trial is None:
        raise JobError(f"run {run} has no trial {number}; it has {len(state.trials)} trials, from 0")
    store = open_store(job, found.folder)
    kept: dict[int, int] = dict(store.list())  # the newest of each trial
    if number not in kept:
        raise ExecutionError(
            f"trial {number} of run {run} has no checkpoint: when a trial has ended, only the best one of "
            "the run is kept, unless the job has `keep_checkpoints: all`; trials with a checkpoint: "
            f"{several(map(str, kept))}"
        )
    model = BestTrial(
        trial=number, config=trial.config, metric=_metric(trial, kept[number]), iterations=kept[number]
    )
    return saved_model(model, store.path(number, kept[number]))


def _metric(trial: Trial, iteration: int) -> float:
    return trial.values[iteration - 1] if iteration <= len(trial.values) else float("nan")


def _state_of(found: FoundRun) -> tuple[State, Job]:
    journal = Journal.open(found.journal, read_only=True)
    setup = setup_of(found.record, journal)
    run = found.record.run
    core, _ = taken_in(setup.make_core(found.record.seed), journal.read(run), run, audited=False)
    return core.state, setup.job
