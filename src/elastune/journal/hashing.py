"""The hash that tells whether two runs went the same way: SHA-256 over all lines, each with its newline.

`sqlite3 journal.sqlite` and `sha256sum` give the same number; `docs/journal.md` shows how.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from elastune.journal.records import Entry, Head


class LineHash:
    """Counts and hashes events as they come."""

    __slots__ = ("_digest", "events", "lines")

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.events = 0
        self.lines = 0

    def add(self, text: str, lines: int) -> None:
        """One event: its lines joined by newlines, without the last one's, and how many they are."""
        self._digest.update(f"{text}\n".encode())
        self.lines += lines
        self.events += 1  # last: where Ctrl-C came in between, the count tells

    def copy(self) -> LineHash:
        other = LineHash()
        other._digest, other.events, other.lines = self._digest.copy(), self.events, self.lines
        return other

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    @property
    def head(self) -> Head:
        return Head(events=self.events, lines=self.lines, sha256=self.sha256)


def hash_entries(entries: Iterable[Entry]) -> LineHash:
    """Where a writer that wrote these entries stands, ready to go on."""
    hashed = LineHash()
    for entry in entries:
        lines = entry.lines
        hashed.add("\n".join(lines), len(lines))
    return hashed


def hash_lines(entries: Iterable[Entry]) -> str:
    return hash_entries(entries).sha256
