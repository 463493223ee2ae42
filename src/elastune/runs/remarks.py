"""What a run leaves to be read by people: the notes of its core and policy, and why trials failed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from elastune.core import State
from elastune.core.commands import Note
from elastune.core.events import Resumed
from elastune.core.failures import exception_line, gist
from elastune.journal import Entry
from elastune.journal.codec import decode
from elastune.units import format_duration

# As the codec writes it. Looking for the text is a hundred times faster than reading every line.
_NOTE_MARK = '"type":"Note"'
_RESUMED_MARK = '"type":"Resumed"'
# Failures have a list of their own, with what they have in common.
_TOLD_ELSEWHERE = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something worth telling, mostly because the core or the policy thought so, and when."""

    at_s: float
    topic: str
    text: str
    down_s: float = 0.0
    """How long nobody was at the wheel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Trials that failed alike: their errors differ in numbers only. `error` and `trial` are of the first."""

    error: str
    trial: int
    trials: int


def remarks_in(entry: Entry) -> Iterator[Remark]:
    """The notes of one event, but for those about trials that failed; and that the driver was down."""
    if _RESUMED_MARK in entry.event_line:
        event = decode(entry.event_line)
        if isinstance(event, Resumed):
            text = f"Elastune was down for {format_duration(event.down_s)} and came back by its journal"
            yield Remark(at_s=event.at_s, topic="driver", text=text, down_s=event.down_s)
    for line in entry.command_lines:
        if _NOTE_MARK in line:
            note = decode(line)
            if isinstance(note, Note) and note.topic != _TOLD_ELSEWHERE:
                at_s = float(json.loads(entry.event_line)["at_s"])
                yield Remark(at_s=at_s, topic=note.topic, text=note.text)


def overheard(entries: Iterable[Entry], remarks: list[Remark]) -> Iterator[Entry]:
    """The same entries; their notes are gathered on the way."""
    for entry in entries:
        remarks.extend(remarks_in(entry))
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
