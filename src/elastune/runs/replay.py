"""State = replay: a journal's events, taken in by a fresh core, give back the run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from elastune.core import Core
from elastune.core.events import AnyEvent
from elastune.errors import ExecutionError
from elastune.journal import Entry
from elastune.journal.codec import Message, decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Where a replay commands something else than the journal says was commanded."""

    number: int
    event: str
    journalled: tuple[str, ...]
    replayed: tuple[str, ...]


def replay(core: Core, entries: Iterable[Entry]) -> Core:
    """Bring a fresh core to where the journal ends."""
    for entry in entries:
        core.handle(event_of(entry))
    return core


def audit(core: Core, entries: Iterable[Entry]) -> Deviation | None:
    """Replay and compare every command; None if the journal is what this core would have done."""
    for entry in entries:
        replayed = tuple(encode(command) for command in core.handle(event_of(entry)))
        if replayed != entry.command_lines:
            return Deviation(
                number=entry.number,
                event=entry.event_line,
                journalled=entry.command_lines,
                replayed=replayed,
            )
    return None


def event_of(entry: Entry) -> AnyEvent:
    message: Message = decode(entry.event_line)
    if not isinstance(message, AnyEvent):
        raise ExecutionError(f"entry {entry.number} of the journal begins with a command, not an event")
    return message
