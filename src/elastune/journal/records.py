"""The values in a journal: runs, their events, how far a run got, and the hash of its lines.

Two runs are the same if the SHA-256 over all lines, each with its newline, is equal. `sqlite3 journal.sqlite`
and `sha256sum` give the same number; `docs/journal.md` shows how.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NewType

from elastune.errors import InvariantError

RunId = NewType("RunId", str)

MEASURING_POLICY = "profile"
"""The policy of runs that measure a training before it is planned."""

# The folder's id, plus the run's number if the folder's journal holds several: `3fa2c1`, `3fa2c1.12`.
_RUN_ID = re.compile(r"[0-9a-z]+(\.[0-9]+)?")


class RuntimeKind(StrEnum):
    SIMULATED = "simulated"
    RAY = "ray"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    run: RunId
    name: str
    created_utc: datetime
    body: RuntimeKind
    policy: str
    seed: int

    def __post_init__(self) -> None:
        if not _RUN_ID.fullmatch(self.run):
            raise InvariantError(f"run id is {self.run!r}; expected one like 3fa2c1 or 3fa2c1.12")
        if self.created_utc.utcoffset() != timedelta(0):
            raise InvariantError(f"run {self.run}: created_utc is {self.created_utc}; expected a time in UTC")

    @property
    def measures(self) -> bool:
        return self.policy == MEASURING_POLICY


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event and the commands it caused; a command's id is (number, index in `command_lines` from 1)."""

    number: int
    event_line: str
    command_lines: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        return (self.event_line, *self.command_lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHead:
    """How far a run got. Events are numbered from 1, so `events` is also the last one's number."""

    events: int
    lines: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """`writer` names the process that is writing the run: None once it ended or crashed."""

    record: RunRecord
    head: JournalHead
    last: Entry | None
    writer: str | None


def to_entry(number: int, event: str, commands: str) -> Entry:
    """From a stored row, whose commands are joined by newlines."""
    lines = tuple(commands.split("\n")) if commands else ()
    return Entry(number=number, event_line=event, command_lines=lines)


def to_text(moment: datetime) -> str:
    """ISO 8601 with a `Z`; such texts sort by time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_HASHED_AT_ONCE = 500


class LineHash:
    """Events are hashed in blocks: one by one it takes three times as long."""

    __slots__ = ("_digest", "_waiting", "events", "lines")

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._waiting: list[str] = []
        self.events = 0
        self.lines = 0

    def add(self, text: str, lines: int) -> None:
        """One event: its lines joined by newlines (none after the last), and their number."""
        self._waiting.append(text)
        if len(self._waiting) == _HASHED_AT_ONCE:
            self._hash_waiting()
        self.lines += lines
        self.events += 1  # last, so that the count shows if Ctrl-C interrupted this method

    def copy(self) -> LineHash:
        self._hash_waiting()
        other = LineHash()
        other._digest, other.events, other.lines = self._digest.copy(), self.events, self.lines
        return other

    def _hash_waiting(self) -> None:
        """Ctrl-C may come at any call: lines wait until they are in the digest, and are in it once."""
        if self._waiting:
            digest = self._digest.copy()
            digest.update(("\n".join(self._waiting) + "\n").encode())
            self._digest, self._waiting = digest, []

    @property
    def sha256(self) -> str:
        self._hash_waiting()
        return self._digest.hexdigest()

    @property
    def head(self) -> JournalHead:
        return JournalHead(events=self.events, lines=self.lines, sha256=self.sha256)


def hash_entries(entries: Iterable[Entry]) -> LineHash:
    """The hash state after these entries; a writer can continue from it."""
    hashed = LineHash()
    for entry in entries:
        hashed.add("\n".join(entry.lines), len(entry.lines))
    return hashed


def hash_lines(entries: Iterable[Entry]) -> str:
    return hash_entries(entries).sha256
