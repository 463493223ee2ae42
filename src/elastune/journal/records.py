"""What a journal holds, as values: runs, their events, and how far a run got."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NewType

from elastune.errors import InvariantError

RunId = NewType("RunId", str)

# The folder's id, and the run's number where a folder's journal holds several: `3fa2c1`, `3fa2c1.12`.
_RUN_ID = re.compile(r"[0-9a-z]+(\.[0-9]+)?")


class Body(StrEnum):
    """What carried the commands out."""

    SIMULATED = "simulated"
    RAY = "ray"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What is known of a run before its first event."""

    run: RunId
    name: str
    created_utc: datetime
    body: Body
    policy: str
    seed: int

    def __post_init__(self) -> None:
        if not _RUN_ID.fullmatch(self.run):
            raise InvariantError(f"a run has the id {self.run!r}; expected one like 3fa2c1 or 3fa2c1.12")
        if self.created_utc.utcoffset() != timedelta(0):
            raise InvariantError(f"run {self.run}: created_utc is {self.created_utc}; expected a time in UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event and the commands it caused; a command's id is (number, place in `command_lines` from 1)."""

    number: int
    event_line: str
    command_lines: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        return (self.event_line, *self.command_lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """How far a run got. Events are numbered from 1, so `events` is also the last one's number."""

    events: int
    lines: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run at a glance. `writer` names the process that writes it now: None once that ended or crashed."""

    record: RunRecord
    head: Head
    last: Entry | None
    writer: str | None


def to_entry(number: int, event: str, commands: str) -> Entry:
    """From how it is stored: commands joined by newlines."""
    return Entry(
        number=number, event_line=event, command_lines=tuple(commands.split("\n")) if commands else ()
    )


def to_text(moment: datetime) -> str:
    """ISO 8601 with a `Z`; texts of this form sort like the times they stand for."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_text(text: str) -> datetime:
    return datetime.fromisoformat(text)
