"""Appends events to one run: numbered, hashed and gathered here; where they go is the sink's matter."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from elastune.errors import ExecutionError, InvariantError
from elastune.journal.hashing import LineHash
from elastune.journal.records import Head, RunId

DEFAULT_BATCH = 2_000

# Run, number, event line, command lines joined by newlines. A tuple, because it goes to the driver as it is:
# rows as mappings through SQLAlchemy's compiler made appending half as slow again (docs/journal.md).
Row = tuple[RunId, int, str, str]


class Sink(Protocol):
    """Where rows become durable."""

    def store(self, rows: Sequence[Row], *, before: Head, after: Head) -> None:
        """All rows or none. Refuses when the run is not at `before`: then somebody else wrote to it."""

    def close(self) -> None:
        """Let others write the run."""


class Writer:
    """The one writer of a run.

    Nothing is durable before `commit`, which stores all that was appended in one transaction; it happens by
    itself once `batch` lines wait (never, with None) and on `close`. A commit that fails changes nothing and
    may be tried again. Leaving the `with` block commits also after an exception: the events did happen. A
    KeyboardInterrupt may come anywhere, also in the middle of `append`: then the event counts.
    """

    __slots__ = ("_batch", "_closed", "_hash", "_rows", "_sink", "_stored", "run")

    def __init__(self, run: RunId, sink: Sink, *, at: LineHash, batch: int | None) -> None:
        if batch is not None and batch < 1:
            raise InvariantError(f"a writer got batch={batch}; expected at least 1, or None for no limit")
        self.run = run
        self._sink = sink
        self._hash = at
        self._stored = at.copy()
        self._rows: list[Row] = []
        self._batch = batch
        self._closed = False

    @property
    def next_number(self) -> int:
        return self._hash.events + 1

    @property
    def sha256(self) -> str:
        """Of all lines appended so far, committed or not."""
        return self._hash.sha256

    def append(self, number: int, lines: Sequence[str]) -> None:
        """The event `lines[0]` and the commands it caused."""
        hashed = self._hash
        if self._closed:
            raise InvariantError(f"run {self.run}: event {number} came after the journal was closed")
        if number != hashed.events + 1:
            raise InvariantError(f"run {self.run}: event {number} came, expected {hashed.events + 1}")
        text = "\n".join(lines)
        if text.count("\n") != len(lines) - 1 or not all(lines):
            raise InvariantError(f"run {self.run}: event {number} needs lines, none empty or with a newline")
        event = lines[0]
        self._rows.append((self.run, number, event, text[len(event) + 1 :]))
        hashed.add(text, len(lines))
        if self._batch is not None and hashed.lines - self._stored.lines >= self._batch:
            self.commit()

    def commit(self) -> None:
        """When this returns, everything appended so far survives a crash of this process."""
        rows = [row for row in self._rows if row[1] > self._stored.events]
        if not rows:
            return
        if self._hash.events != rows[-1][1]:
            self._hash = self._added_up(rows)
        head = self._hash.head
        self._sink.store(rows, before=self._stored.head, after=head)
        self._stored = self._hash.copy()
        self._rows = []

    def _added_up(self, rows: Sequence[Row]) -> LineHash:
        """The hash anew from the last commit on: an interrupt left it behind the rows."""
        hashed = self._stored.copy()
        for _, _, event, commands in rows:
            text = f"{event}\n{commands}" if commands else event
            hashed.add(text, text.count("\n") + 1)
        return hashed

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self.commit()
        finally:
            self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second complaint about the same journal would hide the first error.
        with contextlib.suppress(ExecutionError) if error else contextlib.nullcontext():
            self.close()
