"""Spectators of a run, and the `View` that makes snapshots for them.

A view has the clock of the run, the notes in its journal, and a memory of what happened. `LineLog` writes a
line for each change, and summaries, less and less often. `waiting` says what is going on before the run.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from elastune.core.policy import Policy, ScheduledStage
from elastune.core.state import State
from elastune.errors import ElastuneError
from elastune.history.notes import notes_in
from elastune.history.result import Estimate
from elastune.job.policy_choice import choose, choose_policy
from elastune.journal.records import Entry, RunId, RunRecord
from elastune.setup.run_setup import RunSetup
from elastune.views.live.progress import promise_of
from elastune.views.live.snapshot import BEST, LogEntry, Snapshot, changes, format_clock, summary_line
from elastune.views.live.snapshot_of_state import Subject, take
from elastune.wording import format_duration

_REMEMBERED = 64
_READ_EVERY_S = 1.0
Stages = tuple[tuple[ScheduledStage, ...], ...]
"""Of each track; a change means a new plan, and a note about it."""


class Readable(Protocol):
    """A journal."""

    def read(self, run: RunId, *, after: int = 0) -> Iterator[Entry]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What is known of a run when it starts or resumes. `events` are in the journal already, so no news.
    `policy` is the one that decides: it knows its progress and its present plan."""

    record: RunRecord
    setup: RunSetup
    predicted: Estimate | None
    journal: Readable
    policy: Policy
    events: int = 0


@runtime_checkable
class Spectator(Protocol):
    """A watch that is given an `Opening` first."""

    def begin(self, opening: Opening) -> None: ...

    def __call__(self, state: State) -> None: ...


@runtime_checkable
class Announcer(Protocol):
    """A watch that shows what is going on before the run begins."""

    def announce(self, text: str) -> None: ...

    def __call__(self, state: State) -> None: ...


class Watches:
    """Several watches of the same run."""

    def __init__(self, *watches: Callable[[State], None]) -> None:
        self._watches = watches

    def begin(self, opening: Opening) -> None:
        for watch in self._watches:
            introduce(watch, opening)

    def announce(self, text: str) -> None:
        for watch in self._watches:
            if isinstance(watch, Announcer):
                watch.announce(text)

    def __call__(self, state: State) -> None:
        for watch in self._watches:
            watch(state)


# What takes a while is said after so long, and again each time that the second has passed.
_SOON_S = 2.0
_AGAIN_S = 10.0


@contextmanager
def waiting(
    say: Callable[[str], object], what: str, *, first_s: float = _SOON_S, again_s: float = _AGAIN_S
) -> Iterator[None]:
    """Says what is being waited for, such as `starting Ray`, if it takes longer than `first_s`, and then
    from time to time: no output is silent for long."""
    done, began = threading.Event(), time.monotonic()

    def remind() -> None:
        if first_s and done.wait(first_s):
            return
        with suppress(OSError, ValueError):  # nothing reads it, or it is closed
            say(what)
            while not done.wait(again_s):
                say(f"still {what}, {format_duration(time.monotonic() - began)} so far")

    thread = threading.Thread(target=remind, name="elastune-waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(_AGAIN_S)  # a terminal that is stopped must not stop the run


def announcer_of(watch: Callable[[State], None] | None) -> Callable[[str], None]:
    """For `waiting`; drops everything if the watch cannot show it."""
    return watch.announce if isinstance(watch, Announcer) else lambda _: None


def introduce(watch: Callable[[State], None] | None, opening: Opening) -> None:
    if isinstance(watch, Spectator):
        watch.begin(opening)


class View:
    """Makes snapshots of one run, and remembers what was new in each."""

    def __init__(self, opening: Opening, clock: Callable[[], float] = time.monotonic) -> None:
        record, promise = opening.record, promise_of(opening.setup, opening.predicted)
        policy = _reason(opening.setup)
        self._subject = Subject(name=record.name, run=record.run, policy=policy, promise=promise)
        self._clock = clock
        self._ahead_s: float | None = None
        self._notes = _NoteReader(opening)
        self._next_read_s = 0.0
        self._last: Snapshot | None = None
        self._is_known = opening.events > 0
        self._past: deque[LogEntry] = deque(self._notes.read(opening.events), maxlen=_REMEMBERED)
        self._policy = opening.policy
        self._stages: Stages = ()
        self.news: tuple[LogEntry, ...] = ()
        """What the last look found new."""

    def look(self, state: State) -> Snapshot:
        progress = self._policy.progress(state) if state.events else self._subject.promise.plan
        stages = tuple(track.stages for track in progress.tracks)
        notes = self._read_notes(force=state.ended is not None or stages != self._stages)
        self._stages = stages
        snapshot = take(self._subject, state, progress, now_s=self._now_s(state))
        seen = list(changes(self._last, snapshot))
        if self._last is None and self._is_known:  # no news; only stages have a time of their own
            self._past.extend(each for each in seen if each.topic == snapshot.stage_word)
            seen = []
        self.news = tuple(sorted([*seen, *notes], key=lambda each: each.at_s))
        told = [*self._past, *(each for each in self.news if each.topic != BEST)]
        # An event may reach us after a look that was later than its time.
        self._past = deque(sorted(told, key=lambda each: each.at_s), maxlen=_REMEMBERED)
        self._last = snapshot
        return replace(snapshot, happened=tuple(self._past))

    def _now_s(self, state: State) -> float:
        """The state has only the time of the last event. No event comes from the future, so the largest
        difference to our clock is that of the run's clock."""
        if state.ended_s is not None:
            return state.ended_s
        ahead_s = state.now_s - self._clock()
        self._ahead_s = ahead_s if self._ahead_s is None else max(self._ahead_s, ahead_s)
        return self._clock() + self._ahead_s

    def _read_notes(self, *, force: bool) -> list[LogEntry]:
        now_s = self._clock()
        if now_s < self._next_read_s and not force:
            return []
        self._next_read_s = now_s + _READ_EVERY_S
        return self._notes.read()


def _reason(setup: RunSetup) -> str:
    """Why this policy was chosen; a replay names it explicitly, which is not the reason."""
    job, policy = setup.job, setup.policy
    return str(choose(job, None if policy == choose_policy(job) else policy))


class _NoteReader:
    """The notes of the core and the policy are in the journal only, not in the state."""

    def __init__(self, opening: Opening) -> None:
        self._journal = opening.journal
        self._run = opening.record.run
        self._last = 0

    def read(self, until: int | None = None) -> list[LogEntry]:
        """The new ones, up to an event."""
        found: list[LogEntry] = []
        with suppress(ElastuneError):  # the driver reports a damaged journal
            for entry in self._journal.read(self._run, after=self._last):
                if until is not None and entry.number > until:
                    break
                self._last = entry.number
                found += (
                    LogEntry(at_s=note.at_s, text=note.text, topic=note.topic, is_note=True)
                    for note in notes_in(entry)
                )
        return found


_LOOK_EVERY_S = 1.0
# While a model learns, it is the new best in every iteration.
_BEST_EVERY_S = 5.0
# Summaries come less and less often: after so long at least, at most, and after a share of the time so far.
_SUMMARY_LEAST_S = 5.0
_SUMMARY_MOST_S = 60.0
_SUMMARY_SHARE = 0.1


class LineLog:
    """`Spectator` for a file, a pipe or a notebook. `write` takes a line without its end.

    Lines are in the order of time. An event that reaches us some tenths of a second after its time gets the
    time of the line before it, for that one is written already."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._view: View | None = None
        self._best: LogEntry | None = None
        self._began_s = self._next_look_s = self._next_best_s = self._next_summary_s = 0.0
        self._written_s = 0.0
        self._is_over = False

    def announce(self, text: str) -> None:
        self._write(text)

    def begin(self, opening: Opening) -> None:
        self._view, self._best, self._is_over = View(opening, self._clock), None, False
        self._written_s = 0.0
        self._began_s = self._next_look_s = self._next_best_s = self._clock()
        self._next_summary_s = self._began_s + _SUMMARY_LEAST_S

    def __call__(self, state: State) -> None:
        now_s = self._clock()
        is_over = state.ended is not None
        if self._view is None or (now_s < self._next_look_s and not is_over) or (self._is_over and is_over):
            return
        self._is_over = is_over
        self._next_look_s = now_s + _LOOK_EVERY_S
        snapshot = self._view.look(state)
        self._best = next((each for each in reversed(self._view.news) if each.topic == BEST), self._best)
        news = [each for each in self._view.news if each.topic != BEST]
        if self._best is not None and (now_s >= self._next_best_s or snapshot.is_over):
            self._next_best_s = now_s + _BEST_EVERY_S
            news.insert(
                0, replace(self._best, at_s=snapshot.now_s)
            )  # it may have waited, and is still the best
            self._best = None
        for each in sorted(news, key=lambda each: each.at_s):
            self._log(each.at_s, f"{each}")
        if now_s >= self._next_summary_s or snapshot.is_over:
            every_s = max(_SUMMARY_LEAST_S, _SUMMARY_SHARE * (now_s - self._began_s))
            self._next_summary_s = now_s + min(_SUMMARY_MOST_S, every_s)
            self._log(snapshot.now_s, summary_line(snapshot))

    def _log(self, at_s: float, text: str) -> None:
        self._written_s = max(self._written_s, at_s)
        self._write(f"{format_clock(self._written_s):>7}  {text}")
