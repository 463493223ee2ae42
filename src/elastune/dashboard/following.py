"""Follows a run of another process as its journal grows: its state, its history, and snapshots for pages.

One follower serves all browsers on a run. It reads the journal and nothing else, so the driver of the run
does no work for those who watch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from elastune.core.commands import EndRun
from elastune.core.state import State
from elastune.history.recorder import History, Recorder, commands_of
from elastune.history.trial_tables import trial_line
from elastune.history.trials import HistoryTerms, TrialEntry
from elastune.job.job import Job
from elastune.journal.codec import event_of
from elastune.journal.records import Entry
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.runs.reading import PlannedStage, read_plan
from elastune.runs.reopening import predicted_for, setup_of, taken_in
from elastune.runs.run_list import RunState, state_of
from elastune.views.live.snapshot import Snapshot
from elastune.views.live.spectator import Opening, View

# Entries that are handled before others get their turn at the lock.
_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMoment:
    """A snapshot, and what only the journal as a whole tells: whether a process writes it."""

    state: RunState
    writer: str | None
    events: int
    snapshot: Snapshot


class RunFollower:
    """Raises `ElastuneError` where a journal cannot be read or replayed."""

    def __init__(self, found: FoundRun, clock: Callable[[], float] = time.monotonic) -> None:
        self.found = found
        self._journal = Journal.open(found.journal, read_only=True)
        self.setup = setup_of(found.record, self._journal)
        self.plan: tuple[PlannedStage, ...] = () if self.setup.quote is None else read_plan(found.folder)
        self._core = self.setup.make_core(found.record.seed)
        self._recorder = Recorder(HistoryTerms.of(self.setup.terms), for_tables=True)
        self._clock = clock
        self._view: View | None = None
        self._lock = threading.Lock()
        self.importance = Importance()
        self._recent: tuple[float, RunMoment] | None = None

    @property
    def job(self) -> Job:
        return self.setup.job

    @property
    def _state(self) -> State:
        return self._core.state

    def look(self) -> RunMoment:
        """Read what is new, and take a snapshot."""
        with self._lock:
            self._read()
            if self._view is None:
                self._view = View(self._opening(), self._clock)
            snapshot = self._view.look(self._state)
            summary = self._journal.summary(self.found.record.run)
            ended = self._state.ended
            end = None if ended is None else EndRun(reason=ended, best=None)
            return RunMoment(
                state=state_of(self._journal, summary, end),
                writer=summary.writer,
                events=self._state.events,
                snapshot=snapshot,
            )

    def recent(self, age_s: float) -> RunMoment:
        """The last look, if it is no older: many browsers cost no more than one."""
        recent, now_s = self._recent, self._clock()
        if recent is None or now_s - recent[0] > age_s:
            recent = self._recent = (now_s, self.look())
        return recent[1]

    def history(self) -> History:
        with self._lock:
            self._read()
            return self._recorder.history()

    def trials(self) -> list[TrialEntry]:
        with self._lock:
            self._read()
            state = self._state
            return [trial_line(self._recorder, state, trial) for trial in state.trials.values()]

    def _opening(self) -> Opening:
        return Opening(
            record=self.found.record,
            setup=self.setup,
            predicted=predicted_for(self.setup, self.found.folder),
            journal=self._journal,
            policy=self._core.policy,
            events=self._state.events,
        )

    def _read(self) -> None:
        run, batch = self.found.record.run, list[Entry]()
        for entry in self._journal.read(run, after=self._state.events):
            batch.append(entry)
            if len(batch) == _AT_ONCE:
                self._take(batch)
                batch = []
        self._take(batch)

    def _take(self, entries: list[Entry]) -> None:
        taken_in(self._core, entries, self.found.record.run, audited=False)
        for entry in entries:
            self._recorder.take(event_of(entry), commands_of(entry))


class Importance:
    """The last ranking of hyperparameters: seconds of work that several browsers may ask for at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[list[TrialEntry], dict[str, object]] | None = None

    def of(
        self, trials: list[TrialEntry], rank: Callable[[list[TrialEntry]], dict[str, object]]
    ) -> dict[str, object]:
        with self._lock:
            if self._last is None or self._last[0] != trials:
                self._last = (trials, rank(trials))
            return self._last[1]


class FollowedRuns:
    """Followers by run; the least recently used are dropped."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._followers: dict[str, RunFollower] = {}
        self._lock = threading.Lock()

    def of(self, found: FoundRun) -> RunFollower:
        key = f"{found.journal}#{found.record.run}"
        with self._lock:
            follower = self._followers.pop(key, None)
        follower = follower or RunFollower(found)
        with self._lock:
            self._followers[key] = follower
            while len(self._followers) > self._most:
                self._followers.pop(next(iter(self._followers)))
        return follower

    def forget(self, found: FoundRun) -> None:
        """After an error: the journal may be mended, or the run begun anew."""
        with self._lock:
            self._followers.pop(f"{found.journal}#{found.record.run}", None)
