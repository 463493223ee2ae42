"""Who looks at a run from outside, and the eye that they share: a clock, an ear for notes, a memory.

A run as lines: one for each change worth telling, and how it stands now and then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
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
from elastune.views.live.snapshot import BEST, LogEntry, Snapshot, changes, summary_line, format_clock
from elastune.views.live.taking import Subject, take

_REMEMBERED = 64
_LISTEN_EVERY_S = 1.0
Stages = tuple[tuple[ScheduledStage, ...], ...]
"""Of each track; others mean that there is another plan, and a note about it."""


class Readable(Protocol):
    """Of a journal, all that is needed here."""

    def read(self, run: RunId, *, after: int = 0) -> Iterator[Entry]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What is known of a run before its first event, or before it goes on. `events`: already in the journal;
    what they were is no news."""

    record: RunRecord
    setup: RunSetup
    predicted: Estimate | None
    journal: Readable
    policy: Policy
    """The one that decides; it knows how far it is, and whether it follows another plan by now."""
    events: int = 0


@runtime_checkable
class Spectator(Protocol):
    """A watch that wants to know at what it looks."""

    def begin(self, opening: Opening) -> None: ...

    def __call__(self, state: State) -> None: ...


class Watches:
    """Two who look at the same run."""

    def __init__(self, *watches: Callable[[State], None]) -> None:
        self._watches = watches

    def begin(self, opening: Opening) -> None:
        for watch in self._watches:
            introduce(watch, opening)

    def __call__(self, state: State) -> None:
        for watch in self._watches:
            watch(state)


def introduce(watch: Callable[[State], None] | None, opening: Opening) -> None:
    """Tell a watch what it is going to see, if it wants to know."""
    if isinstance(watch, Spectator):
        watch.begin(opening)


class View:
    """Makes scenes of one run, and remembers what was new in each."""

    def __init__(self, opening: Opening, clock: Callable[[], float] = time.monotonic) -> None:
        record = opening.record
        self._subject = Subject(
            name=record.name,
            run=record.run,
            policy=_reason(opening.setup),
            promise=promise_of(opening.setup, opening.predicted),
        )
        self._clock = clock
        self._ahead_s: float | None = None
        self._ear = _Ear(opening)
        self._next_listening_s = 0.0
        self._last: Snapshot | None = None
        self._is_known = opening.events > 0
        self._past: deque[LogEntry] = deque(self._ear.listen(opening.events), maxlen=_REMEMBERED)
        self._policy = opening.policy
        self._stages: Stages = ()
        self.news: tuple[LogEntry, ...] = ()
        """What happened since the look before the last one."""

    def look(self, state: State) -> Snapshot:
        progress = self._policy.progress(state) if state.events else self._subject.promise.plan
        stages = tuple(track.stages for track in progress.tracks)
        heard = self._listen(force=state.ended is not None or stages != self._stages)
        self._stages = stages
        snapshot = take(self._subject, state, progress, now_s=self._now_s(state))
        seen = list(changes(self._last, snapshot))
        if self._last is None and self._is_known:  # it was so before; only stages have a time of their own
            self._past.extend(each for each in seen if each.topic == snapshot.stage_word)
            seen = []
        self.news = tuple(sorted([*seen, *heard], key=lambda each: each.at_s))
        self._past.extend(each for each in self.news if each.topic != BEST)
        self._last = snapshot
        return replace(snapshot, happened=tuple(self._past))

    def _now_s(self, state: State) -> float:
        """The state knows of the last event only. No event comes from the future, so the clock that is the
        furthest ahead of ours is the run's."""
        if state.ended_s is not None:
            return state.ended_s
        ahead_s = state.now_s - self._clock()
        self._ahead_s = ahead_s if self._ahead_s is None else max(self._ahead_s, ahead_s)
        return self._clock() + self._ahead_s

    def _listen(self, *, force: bool) -> list[LogEntry]:
        now_s = self._clock()
        if now_s < self._next_listening_s and not force:
            return []
        self._next_listening_s = now_s + _LISTEN_EVERY_S
        return self._ear.listen()


def _reason(setup: RunSetup) -> str:
    """Why this policy; that a replay asks for it by name is no reason."""
    job, policy = setup.job, setup.policy
    return str(choose(job, None if policy == choose_policy(job) else policy))


class _Ear:
    """The notes of the core and the policy are in the journal, and nowhere in the state."""

    def __init__(self, opening: Opening) -> None:
        self._journal = opening.journal
        self._run = opening.record.run
        self._heard = 0

    def listen(self, until: int | None = None) -> list[LogEntry]:
        """What is new, up to an event."""
        heard: list[LogEntry] = []
        try:
            for entry in self._journal.read(self._run, after=self._heard):
                if until is not None and entry.number > until:
                    break
                self._heard = entry.number
                heard += (
                    LogEntry(at_s=remark.at_s, text=remark.text, topic=remark.topic, is_note=True)
                    for remark in notes_in(entry)
                )
        except ElastuneError:
            return heard  # whoever writes the journal has to tell what is wrong with it
        return heard


_LOOK_EVERY_S = 1.0
# A model that learns is the best so far again and again.
_BEST_EVERY_S = 5.0
_STANDING_EVERY_S = 15.0


class LineLog:
    """`Spectator` for a place where nothing can be drawn over: a file, a pipe, a notebook."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`write` takes a line without its end."""
        self._write = write
        self._clock = clock
        self._view: View | None = None
        self._best: LogEntry | None = None
        self._next_look_s = self._next_best_s = self._next_standing_s = 0.0

    def begin(self, opening: Opening) -> None:
        self._view, self._best = View(opening, self._clock), None
        self._next_look_s = self._next_best_s = self._clock()
        self._next_standing_s = self._clock() + _STANDING_EVERY_S

    def __call__(self, state: State) -> None:
        now_s = self._clock()
        if self._view is None or (now_s < self._next_look_s and state.ended is None):
            return
        self._next_look_s = now_s + _LOOK_EVERY_S
        snapshot = self._view.look(state)
        for each in self._view.news:
            if each.topic == BEST:
                self._best = each
            else:
                self._tell(each.at_s, f"{each}")
        if self._best is not None and (now_s >= self._next_best_s or snapshot.is_over):
            self._next_best_s = now_s + _BEST_EVERY_S
            self._tell(self._best.at_s, f"{self._best}")
            self._best = None
        if now_s >= self._next_standing_s and not snapshot.is_over:
            self._next_standing_s = now_s + _STANDING_EVERY_S
            self._tell(snapshot.now_s, summary_line(snapshot))

    def _tell(self, at_s: float, text: str) -> None:
        self._write(f"{format_clock(at_s):>7}  {text}")
