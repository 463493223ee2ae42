"""Listeners of a real run, and the one that writes for other tools: CSV, TensorBoard, MLflow, W&B.

The loop of the run only records events; every two seconds the changes go to one writer thread per tool. An
error there is noted once and ends the writing for that tool, never the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from elastune.checkpoints.store import Store
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.exports.files import CsvWriter, LogWriter, RunHead, RunNews, WriterThread, require
from elastune.exports.mlflow_writer import MlflowWriter
from elastune.exports.saved_model import saved_model
from elastune.exports.tensorboard_writer import TensorBoardWriter
from elastune.exports.wandb_writer import open_wandb
from elastune.history.notes import RunNote
from elastune.history.recorder import commands_of
from elastune.history.result import best_of
from elastune.history.trial_tables import table_recorder, trial_line
from elastune.history.trials import RowEntry, TrialEntry, without_lost
from elastune.job.job import Job
from elastune.job.outputs import LoggingSection
from elastune.journal.codec import event_of
from elastune.journal.records import Entry, RunRecord
from elastune.journal.run_commands import command_for
from elastune.journal.run_folders import RunFolder
from elastune.journal.writer import AnyJournal
from elastune.model.ids import TrialId
from elastune.runs.callbacks import CallbackWriter, EndInfo, info_of
from elastune.runs.results import head_of

_SECONDS_PER_FLUSH = 2.0
_CALLBACKS = "callbacks"
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOpening:
    head: RunHead
    folder: RunFolder

    @classmethod
    def of(cls, record: RunRecord, state: State, folder: RunFolder) -> RunOpening:
        return cls(head=head_of(record, state), folder=folder)

    def explain(self, name: str, why: str) -> str:
        """A note for the user about a log writer that has stopped."""
        if name == _CALLBACKS:
            return f"the callbacks are no longer called: {why}"
        options = ("--format", name, *(["--force"] if name == "csv" else []))
        command = command_for("export", self.folder, self.head.run, *options)
        return f"writing for {name} has stopped: {why}; when the run is over, `{command}` writes all of it"


def check_loggers(wanted: LoggingSection) -> None:
    """Raises `JobError` if a library is missing."""
    for name in ("tensorboard", "mlflow", "wandb"):
        if getattr(wanted, name) is not None:
            require(name, extra=name, what=f"logging: {name}")


def openers(wanted: LoggingSection, run: RunOpening) -> dict[str, Callable[[], LogWriter]]:
    """Functions that open the log writer of each tool, to be called in a thread, because a server may be
    slow."""
    check_loggers(wanted)
    found: dict[str, Callable[[], LogWriter]] = {}
    if wanted.csv is not None:
        found["csv"] = partial(CsvWriter, _place(wanted.csv, run, "export"))
    if wanted.tensorboard is not None:
        place = _place(wanted.tensorboard, run, "tensorboard")
        found["tensorboard"] = partial(TensorBoardWriter, place, run.head)
    if wanted.mlflow is not None:
        at = wanted.mlflow
        found["mlflow"] = partial(MlflowWriter, run.head, uri=at.uri, experiment=at.experiment)
    if wanted.wandb is not None:
        named = wanted.wandb.model_dump(include={"project", "entity", "mode"})
        found["wandb"] = partial(open_wandb, run.head, run.folder.path, **named)
    return found


def _place(written: str | bool, run: RunOpening, usual: str) -> Path:
    """The same as for an export of the run, so that one replaces the other."""
    if isinstance(written, str):
        return Path(written) / f"{run.head.name}-{run.head.run}"
    return run.folder.path / usual


class RunLogger:
    """`state` is the run's core state, read only between two events."""

    def __init__(
        self,
        run: RunOpening,
        sinks: Mapping[str, Callable[[], LogWriter]],
        *,
        state: State,
        store: Store,
        clock: Clock = time.monotonic,
        notes: Callable[[], Sequence[RunNote]] = lambda: (),
    ) -> None:
        """`notes`: of the log writers themselves."""
        self._state = state
        self._notes = notes
        self._store = store
        self._clock = clock
        self._next_s = clock() + _SECONDS_PER_FLUSH
        self._record = table_recorder(state.terms)
        self._shown: dict[TrialId, str] = {}  # the last one written, by trial
        self._living: set[TrialId] = set()
        self._written: dict[int, int] = {}  # the last iteration handed over, by trial
        self._threads = [
            WriterThread(name, opener, explain=partial(run.explain, name), now=lambda: state.now_s)
            for name, opener in sinks.items()
        ]

    def take(self, event: AnyEvent, commands: Iterable[object]) -> None:
        self._record.take(event, commands)

    def flush(self) -> None:
        if self._clock() >= self._next_s:
            self._next_s = self._clock() + _SECONDS_PER_FLUSH
            self._hand_over(None)

    def close(self) -> None:
        ended = self._state.ended
        self._hand_over(None if ended is None else ended.value)
        for thread in self._threads:
            thread.close()

    def remarks(self) -> Sequence[RunNote]:
        stopped = [thread.complaint for thread in self._threads if thread.complaint is not None]
        return [*self._notes(), *stopped]

    def skip(self) -> None:
        """Leave out what was taken so far."""
        self._fresh(self._record.rows.fresh())
        self._changed()

    def _hand_over(self, ending: str | None) -> None:
        rows = self._fresh(self._record.rows.fresh())
        trials = self._changed()
        if not rows and not trials and ending is None:
            return
        best = None if self._state.best is None else self._line(self._state.best.trial)
        news = RunNews(trials=trials, rows=rows, ending=ending, best=best)
        for thread in self._threads:
            thread.tell(news)

    def _fresh(self, rows: list[RowEntry]) -> tuple[RowEntry, ...]:
        """Each iteration once; one that was lost and repeated was handed over before."""
        fresh = []
        for row in without_lost(rows):
            if row.iteration > self._written.get(row.trial, 0):
                self._written[row.trial] = row.iteration
                fresh.append(row)
        return tuple(fresh)

    def _changed(self) -> tuple[TrialEntry, ...]:
        trials, changed = self._state.trials, self._record.rows.changed()
        self._living |= changed
        changed |= {
            number for number in self._living if self._shown.get(number) != trials[number].phase.value
        }
        for number in changed:
            phase = trials[number].phase
            self._shown[number] = phase.value
            if phase.is_over:
                self._living.discard(number)
        return tuple(self._line(number) for number in sorted(changed))

    def _line(self, number: TrialId) -> TrialEntry:
        trial = self._state.trials[number]
        return trial_line(self._record, self._state, trial, self._checkpoint(trial))

    def _checkpoint(self, trial: Trial) -> str | None:
        """The kept one: the best of the run, or the last of an unfinished trial."""
        best = self._state.best
        if best is not None and best.trial == trial.number:
            return self._store.path(trial.number, best.iteration)
        if trial.phase.is_over or trial.saved <= trial.inherited:
            return None
        return self._store.path(trial.number, trial.saved)


def catch_up(logger: RunLogger, entries: Iterable[Entry]) -> None:
    """Feed the events before an interruption; the log writers start again, or know what they have written."""
    for entry in entries:
        logger.take(event_of(entry), commands_of(entry))


class Listener(Protocol):
    """Called by the loop of a run, so all methods but `close` must be fast, and none may raise."""

    def take(self, event: AnyEvent, commands: Sequence[AnyCommand]) -> None:
        """An event that the core has processed, and its commands."""

    def flush(self) -> None:
        """Called a few times per second, when all taken events are durable."""

    def close(self) -> None:
        """The run has ended or is suspended. Waits until everything is written."""

    def remarks(self) -> Sequence[RunNote]:
        """Notes for the user."""


@dataclass(frozen=True, slots=True)
class Listeners:
    each: tuple[Listener, ...] = ()

    def take(self, event: AnyEvent, commands: Sequence[AnyCommand]) -> None:
        for listener in self.each:
            listener.take(event, commands)

    def flush(self) -> None:
        for listener in self.each:
            listener.flush()

    def close(self) -> None:
        for listener in self.each:
            listener.close()

    def remarks(self) -> list[RunNote]:
        return [remark for listener in self.each for remark in listener.remarks()]


def open_listeners(
    job: Job,
    state: State,
    journal: AnyJournal,
    record: RunRecord,
    folder: RunFolder,
    store: Store,
    *,
    callbacks: Sequence[object] = (),
) -> Listeners:
    """Those that the job requests, and `callbacks`. For a resumed run, they first read its journal.

    Raises `JobError` if a library is missing.
    """
    if record.measures:  # trials that measure are not logged
        return Listeners()
    started = RunOpening.of(record, state, folder)
    listeners: list[RunLogger] = []
    if job.logging is not None:
        listeners.append(RunLogger(started, openers(job.logging, started), state=state, store=store))
    if callbacks:
        listeners.append(_calling(callbacks, started, state, store))
    for logger in listeners if state.events else ():
        catch_up(logger, journal.read(record.run))
    if state.events and callbacks:
        listeners[-1].skip()
    return Listeners(tuple(listeners))


def _calling(callbacks: Sequence[object], run: RunOpening, state: State, store: Store) -> RunLogger:
    start = info_of(run.head, str(run.folder.path), resumed=bool(state.events))

    def end(ending: str) -> EndInfo:
        best = best_of(state)
        return EndInfo(
            run=run.head.run,
            ending=ending,
            best=None if best is None else saved_model(best, store.path(best.trial, best.iterations)),
            trials=len(state.trials),
            seconds=state.now_s if state.ended_s is None else state.ended_s,
            cost=state.ledger.accrued_usd(state.now_s),
        )

    writer = CallbackWriter(callbacks, start, end=end, state=state)
    return RunLogger(run, {_CALLBACKS: writer.open}, state=state, store=store, notes=lambda: writer.notes)
