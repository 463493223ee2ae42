"""The results of a run, finished or not, from its journal: every trial and every row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from elastune.core.events import Progressed
from elastune.core.state import State
from elastune.errors import ElastuneError
from elastune.exports.files import RunHead, RunNews
from elastune.history.trial_tables import table_recorder, trial_line
from elastune.history.trials import RowEntry, TrialEntry, without_lost
from elastune.job.job import Job
from elastune.journal.codec import decode, event_of, has_rows
from elastune.journal.records import RunRecord, RuntimeKind
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.runs.reopening import replaying, setup_of
from elastune.runs.run_files import open_store


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
