"""Follows a run of another process as its journal grows: its state, its history, and snapshots for pages.

One follower serves all browsers on a run. It reads the journal and nothing else, so the driver of the run
does no work for those who watch.
"""

from __future__ import annotations

import bisect
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from elastune.core.commands import EndRun
from elastune.core.core import Core
from elastune.core.state import State
from elastune.history.notes import notes_in
from elastune.history.recorder import History, Recorder, commands_of
from elastune.history.result import phase_of
from elastune.history.trial_tables import trial_line
from elastune.history.trials import HistoryTerms, TrialEntry
from elastune.journal.codec import event_of
from elastune.journal.records import Entry, RunId, Summary
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.model.ids import TrialId
from elastune.runs.control.requests import RunRequest, to_event
from elastune.runs.reading import PlannedStage, read_plan
from elastune.runs.reopening import predicted_for, replaying, setup_of, started_of
from elastune.runs.run_list import RunState, find_end, state_of
from elastune.views.live.snapshot import Snapshot
from elastune.views.live.spectator import Opening, View

# Entries that are handled before the clock is read again.
_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMoment:
    """A snapshot, and what only the journal as a whole tells: whether a process writes it, and until when the
    run went, with its best value if it ended. `events` of the `total` in the journal were read."""

    state: RunState
    writer: str | None
    events: int
    total: int
    until_s: float
    best: float | None
    snapshot: Snapshot

    @property
    def is_whole(self) -> bool:
        return self.events >= self.total


class RunFollower:
    """Raises `ElastuneError` where a journal cannot be read or replayed. A million rows take a minute to
    replay, so they are read piece by piece; what is shown meanwhile is the run as far as it was read."""

    def __init__(
        self,
        found: FoundRun,
        clock: Callable[[], float] = time.monotonic,
        effort: Callable[[], float] = time.thread_time,
        *,
        core: Core | None = None,
    ) -> None:
        """`effort`: seconds of work, not of waiting: on a busy machine a look reads no less. `core`: of the
        process that ran it, at the end of the journal, so that only its history is read."""
        self.found = found
        self._effort = effort
        self._journal = Journal.open(found.journal, read_only=True)
        self.setup = setup_of(found.record, self._journal)
        self.plan: tuple[PlannedStage, ...] = () if self.setup.quote is None else read_plan(found.folder)
        self._core = core or self.setup.make_core(found.record.seed)
        self._recorder = Recorder(HistoryTerms.of(self.setup.terms), for_tables=True, lists_rows=False)
        self._clock = clock
        self._noted = _NotedEntries()
        self._view: View | None = None
        self._lock = threading.Lock()
        self._total = 0
        self._found_end: tuple[int, EndRun | None, float] = (0, None, 0.0)
        self._recent: tuple[float, RunMoment] | None = None

    @property
    def has_looked(self) -> bool:
        return self._view is not None

    def job(self) -> Mapping[str, object]:
        """As it was given; that of `setup` has no trainable."""
        return started_of(self.found.record, self._journal).job

    @property
    def _state(self) -> State:
        return self._core.state

    def look(self, for_s: float = math.inf) -> RunMoment:
        """Read what is new for so long, and take a snapshot."""
        with self._lock:
            summary = self._journal.summary(self.found.record.run)
            was_whole = self._recorder.events >= self._total
            self._total = max(self._total, summary.head.events)
            self._read(for_s)
            is_whole = self._recorder.events >= self._total
            if self._view is None or (is_whole and not was_whole):  # what was read piece by piece is no news
                self._view = View(self._opening(), self._clock)
            snapshot = self._view.look(self._state)
            end, until_s = self._end(summary, is_whole=is_whole)
            return RunMoment(
                state=state_of(self._journal, summary, end),
                writer=summary.writer,
                events=self._recorder.events,
                total=self._total,
                until_s=until_s,
                best=None if end is None or end.best is None else end.best.metric,
                snapshot=snapshot,
            )

    def _end(self, summary: Summary, *, is_whole: bool) -> tuple[EndRun | None, float]:
        """And its time, or that of the last event. Before all was read it is searched for, maybe in all of
        the journal, so once for each length."""
        if is_whole:
            ended = self._state.ended
            return None if ended is None else EndRun(reason=ended, best=None), self._state.now_s
        if self._found_end[0] != summary.head.events:
            self._found_end = summary.head.events, *find_end(self._journal, summary)
        return self._found_end[1:]

    def recent(self, age_s: float, for_s: float = math.inf) -> RunMoment:
        """The last look, if it is no older: many browsers cost no more than one."""
        recent, now_s = self._recent, self._clock()
        if recent is None or now_s - recent[0] > age_s or not recent[1].is_whole:
            moment = self.look(for_s)
            recent = self._recent = (self._clock(), moment)
        return recent[1]

    def read(self, for_s: float = math.inf) -> int:
        """Read what is new for so long; returns the number of events read so far."""
        with self._lock:
            self._read(for_s)
            return self._recorder.events

    def history(self) -> History:
        """As far as the journal was read."""
        with self._lock:
            return self._recorder.history()

    def trials(self) -> list[TrialEntry]:
        """As far as the journal was read."""
        with self._lock:
            state = self._state
            return [trial_line(self._recorder, state, trial) for trial in state.trials.values()]

    def statuses(self) -> dict[TrialId, str]:
        """Of all trials drawn, as far as the journal was read."""
        with self._lock:
            state = self._state
            return {number: phase_of(state, trial).value for number, trial in state.trials.items()}

    def refusal(self, request: RunRequest) -> str | None:
        """Why the run would refuse this request now; None: it would not."""
        with self._lock:
            self._read(math.inf)
            event = to_event(request, self._state, declared=None, request_id="", at_s=self._state.now_s)
            return self._core.refusal(event)

    def _opening(self) -> Opening:
        return Opening(
            record=self.found.record,
            setup=self.setup,
            predicted=predicted_for(self.setup, self.found.folder),
            journal=self._noted,
            policy=self._core.policy,
            events=self._recorder.events,
        )

    def _read(self, for_s: float) -> None:
        run, until_s = self.found.record.run, self._effort() + for_s
        with replaying(self._state, run):
            for entry in self._journal.read(run, after=self._recorder.events):
                event = event_of(entry)
                if entry.number > self._state.events:
                    self._core.handle(event)
                self._recorder.take(event, commands_of(entry))
                self._noted.add(entry)
                if not entry.number % _AT_ONCE and self._effort() > until_s:
                    break


class _NotedEntries:
    """The entries with notes, which are few: a view reads them like a journal, which is not read twice."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        if next(notes_in(entry), None) is not None:
            self._entries.append(entry)

    def read(self, _run: RunId, *, after: int = 0) -> Iterator[Entry]:
        first = bisect.bisect_right(self._entries, after, key=lambda entry: entry.number)
        return iter(self._entries[first:])
