"""The listener that writes for other tools while a run goes: CSV, TensorBoard, MLflow.

Events are only noted by the loop of the run; every two seconds what is new goes to one thread per tool, which
writes it. What goes wrong there is told once, and ends the writing for that tool, never the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from elastune.checkpoints import Store
from elastune.core import AnyEvent, State
from elastune.core.trials import Trial
from elastune.exports import News, RowLine, RunHead, Sink, TrialLine, without_lost
from elastune.exports.csv_sink import CsvSink
from elastune.exports.missing import require
from elastune.exports.mlflow_sink import MlflowSink
from elastune.exports.tensorboard_sink import TensorBoardSink
from elastune.job.loggers import LoggingSection
from elastune.journal import Entry, RunFolder, RunRecord
from elastune.place import TrialId
from elastune.runs.chronicle import table_recorder, trial_line
from elastune.runs.history.book import commands_of
from elastune.runs.remarks import Remark
from elastune.runs.replay import event_of
from elastune.runs.results import head_of
from elastune.runs.scribe import Scribe

_SECONDS_PER_FLUSH = 2.0
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Which run it is, and where it lies."""

    head: RunHead
    folder: RunFolder

    @classmethod
    def of(cls, record: RunRecord, state: State, folder: RunFolder) -> Started:
        return cls(head=head_of(record, state), folder=folder)


def check_loggers(wanted: LoggingSection) -> None:
    """Raises `JobError` where a library is missing."""
    for name in ("tensorboard", "mlflow"):
        if getattr(wanted, name) is not None:
            require(name, extra=name, what=f"logging: {name}")


def openers(wanted: LoggingSection, run: Started) -> dict[str, Callable[[], Sink]]:
    """How to open the sink of each tool; a server may take a while, so a thread does it."""
    check_loggers(wanted)
    found: dict[str, Callable[[], Sink]] = {}
    if wanted.csv is not None:
        found["csv"] = partial(CsvSink, _place(wanted.csv, run, "export"))
    if wanted.tensorboard is not None:
        place = _place(wanted.tensorboard, run, "tensorboard")
        found["tensorboard"] = partial(TensorBoardSink, place, run.head)
    if wanted.mlflow is not None:
        at = wanted.mlflow
        found["mlflow"] = partial(MlflowSink, run.head, uri=at.uri, experiment=at.experiment)
    return found


def _place(written: str | bool, run: Started, usual: str) -> Path:
    """As an export of the same run would have it: so the one replaces the other."""
    if isinstance(written, str):
        return Path(written) / f"{run.head.name}-{run.head.run}"
    return run.folder.path / usual


class Logger:
    """`state` is that of the run's core; it is read between two events only."""

    def __init__(
        self,
        run: Started,
        sinks: Mapping[str, Callable[[], Sink]],
        *,
        state: State,
        store: Store,
        clock: Clock = time.monotonic,
    ) -> None:
        self._state = state
        self._store = store
        self._clock = clock
        self._next_s = clock() + _SECONDS_PER_FLUSH
        self._record = table_recorder(state.terms)
        self._told: dict[TrialId, str] = {}
        """The last status that was told of each trial."""
        self._living: set[TrialId] = set()
        self._written: dict[int, int] = {}
        """The last iteration of each trial that was handed over."""
        self._scribes = [
            Scribe(name, opener, run=run.head.run, now=lambda: state.now_s) for name, opener in sinks.items()
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
        for scribe in self._scribes:
            scribe.close()

    def remarks(self) -> Sequence[Remark]:
        return [scribe.complaint for scribe in self._scribes if scribe.complaint is not None]

    def _hand_over(self, ending: str | None) -> None:
        rows = self._fresh(self._record.rows.fresh())
        trials = self._changed()
        if not rows and not trials and ending is None:
            return
        best = None if self._state.best is None else self._line(self._state.best.trial)
        news = News(trials=trials, rows=rows, ending=ending, best=best)
        for scribe in self._scribes:
            scribe.tell(news)

    def _fresh(self, rows: list[RowLine]) -> tuple[RowLine, ...]:
        """An iteration that was lost and trained again has been told already; none is told twice."""
        fresh = []
        for row in without_lost(rows):
            if row.iteration > self._written.get(row.trial, 0):
                self._written[row.trial] = row.iteration
                fresh.append(row)
        return tuple(fresh)

    def _changed(self) -> tuple[TrialLine, ...]:
        trials, changed = self._state.trials, self._record.rows.changed()
        self._living |= changed
        changed |= {number for number in self._living if self._told.get(number) != trials[number].phase.value}
        for number in changed:
            phase = trials[number].phase
            self._told[number] = phase.value
            if phase.is_over:
                self._living.discard(number)
        return tuple(self._line(number) for number in sorted(changed))

    def _line(self, number: TrialId) -> TrialLine:
        trial = self._state.trials[number]
        return trial_line(self._record, self._state, trial, self._checkpoint(trial))

    def _checkpoint(self, trial: Trial) -> str | None:
        """The one that is kept: the best of all, or the last of a trial that may go on."""
        best = self._state.best
        if best is not None and best.trial == trial.number:
            return self._store.path(trial.number, best.iteration)
        if trial.phase.is_over or trial.saved <= trial.inherited:
            return None
        return self._store.path(trial.number, trial.saved)


def catch_up(logger: Logger, entries: Iterable[Entry]) -> None:
    """Take what a run did before it was interrupted; the sinks begin anew, or know what they have."""
    for entry in entries:
        logger.take(event_of(entry), commands_of(entry))
