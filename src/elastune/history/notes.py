"""What a run leaves to be read by people: the notes of its core and policy, and why trials failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from elastune.core.commands import Note
from elastune.core.events import Resumed
from elastune.core.shutdown import exception_line, gist
from elastune.core.state import State
from elastune.journal.codec import select, time_of
from elastune.journal.records import Entry
from elastune.wording import format_duration

# Failures have a list of their own, with what they have in common.
_TOLD_ELSEWHERE = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """Something worth telling, mostly because the core or the policy thought so, and when."""

    at_s: float
    topic: str
    text: str
    down_s: float = 0.0  # how long the driver was down


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Trials that failed alike: their errors differ in numbers only. `error` and `trial` are of the first."""

    error: str
    trial: int
    trials: int


def note_on(event: Resumed) -> RunNote:
    """That the driver was down."""
    text = f"Elastune was down for {format_duration(event.down_s)} and came back by its journal"
    return RunNote(at_s=event.at_s, topic="driver", text=text, down_s=event.down_s)


def notes_of(note: Note, at_s: float) -> Iterator[RunNote]:
    """None, if the note is about a trial that failed."""
    if note.topic != _TOLD_ELSEWHERE:
        yield RunNote(at_s=at_s, topic=note.topic, text=note.text)


def notes_in(entry: Entry) -> Iterator[RunNote]:
    """What the recorder notes of one event; but no other line is decoded, so a replay is not slowed down."""
    for event in select((entry.event_line,), Resumed):
        yield note_on(event)
    for note in select(entry.command_lines, Note):
        yield from notes_of(note, time_of(entry.event_line))


def overheard(entries: Iterable[Entry], remarks: list[RunNote]) -> Iterator[Entry]:
    """The same entries; their notes are gathered on the way."""
    for entry in entries:
        remarks.extend(notes_in(entry))
        yield entry


def failures_of(state: State) -> tuple[Failure, ...]:
    """The most frequent first."""
    alike: dict[str, list[tuple[int, str]]] = {}
    for trial in state.trials.values():
        if trial.error is not None:
            line = exception_line(trial.error)
            alike.setdefault(gist(trial.error), []).append((trial.number, line))
    failures = [Failure(error=found[0][1], trial=found[0][0], trials=len(found)) for found in alike.values()]
    return tuple(sorted(failures, key=lambda failure: (-failure.trials, failure.trial)))
