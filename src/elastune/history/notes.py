"""The notes of a run's core and policy, and the reasons why trials failed, for users to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from elastune.core.commands import Note
from elastune.core.events import Resumed
from elastune.core.run_failure import exception_line, gist
from elastune.core.state import State
from elastune.journal.codec import select, time_of
from elastune.journal.records import Entry
from elastune.wording import format_duration

# Failures have a list of their own, grouped by error.
_FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """A message for the user, mostly from the core or the policy."""

    at_s: float
    topic: str
    text: str
    down_s: float = 0.0  # how long the driver was down


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Trials whose errors differ in numbers only. `error` and `trial` are those of the first."""

    error: str
    trial: int
    trials: int


def note_on(event: Resumed) -> RunNote:
    text = "Elastune resumed the run from its journal"
    if event.down_s:
        text = f"Elastune was down for {format_duration(event.down_s)} and resumed from its journal"
    return RunNote(at_s=event.at_s, topic="driver", text=text, down_s=event.down_s)


def notes_of(note: Note, at_s: float) -> Iterator[RunNote]:
    """Nothing if the note is about a failed trial."""
    if note.topic != _FAILED:
        yield RunNote(at_s=at_s, topic=note.topic, text=note.text)


def notes_in(entry: Entry) -> Iterator[RunNote]:
    """The notes that the recorder has for one entry; other lines are not decoded, to keep replays fast."""
    for event in select((entry.event_line,), Resumed):
        yield note_on(event)
    for note in select(entry.command_lines, Note):
        yield from notes_of(note, time_of(entry.event_line))


def collect_notes(entries: Iterable[Entry], notes: list[RunNote]) -> Iterator[Entry]:
    """Passes the entries on and appends their notes to `notes`."""
    for entry in entries:
        notes.extend(notes_in(entry))
        yield entry


def failures_of(state: State) -> tuple[Failure, ...]:
    """The most frequent first."""
    alike: dict[str, list[tuple[int, str]]] = {}
    for trial in state.trials.values():
        if trial.error is not None:
            alike.setdefault(gist(trial.error), []).append((trial.number, exception_line(trial.error)))
    failures = [Failure(error=found[0][1], trial=found[0][0], trials=len(found)) for found in alike.values()]
    return tuple(sorted(failures, key=lambda failure: (-failure.trials, failure.trial)))
