"""Appends events to one run: numbers, hashes and batches them; an `EntrySink` stores them.

`AnyJournal` is the contract of a journal in a database or in memory. `MemoryJournal` is for runs that keep no
file and still need their hash.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from elastune.errors import ExecutionError, InvariantError, JobError
from elastune.journal.records import (
    Entry,
    JournalHead,
    LineHash,
    RunId,
    RunRecord,
    Summary,
    hash_entries,
    to_entry,
)

DEFAULT_BATCH = 2_000

# Run, number, event line, command lines joined by newlines. A tuple, because it goes to the driver unchanged:
# rows as mappings through SQLAlchemy's compiler made appending 1.5 times slower (docs/journal.md).
Row = tuple[RunId, int, str, str]


class EntrySink(Protocol):
    def store(self, rows: Sequence[Row], *, before: JournalHead, after: JournalHead) -> None:
        """All rows or none. Raises if the run is not at `before`, because another process wrote to it."""

    def close(self) -> None:
        """Allow other writers."""


class Writer:
    """The only writer of a run.

    Nothing is durable before `commit`, which stores all appended events in one transaction. It runs when
    `batch` lines are waiting (never, with None) and on `close`. A failed commit changes nothing and may be
    retried. Leaving the `with` block commits even after an exception, because the events did happen. A
    KeyboardInterrupt may arrive anywhere, also inside `append`: then the event counts.
    """

    __slots__ = ("_batch", "_closed", "_hash", "_rows", "_sink", "_stored", "run")

    def __init__(self, run: RunId, sink: EntrySink, *, at: LineHash, batch: int | None) -> None:
        if batch is not None and batch < 1:
            raise InvariantError(f"batch is {batch}; expected at least 1, or None for no limit")
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
        text = lines[0] if len(lines) == 1 else "\n".join(lines)
        if text.count("\n") != len(lines) - 1 or not all(lines):
            raise InvariantError(
                f"run {self.run}: event {number} has no lines, an empty one, or one with a newline"
            )
        event = lines[0]
        self._rows.append((self.run, number, event, text[len(event) + 1 :]))
        hashed.add(text, len(lines))
        if self._batch is not None and hashed.lines - self._stored.lines >= self._batch:
            self.commit()

    def commit(self) -> None:
        """On return, everything appended so far survives a crash of this process."""
        rows = [row for row in self._rows if row[1] > self._stored.events]
        if not rows:
            return
        if self._hash.events != rows[-1][1]:
            self._hash = self._rehashed(rows)
        self._sink.store(rows, before=self._stored.head, after=self._hash.head)
        self._stored = self._hash.copy()
        self._rows = []

    def _rehashed(self, rows: Sequence[Row]) -> LineHash:
        """The hash recomputed since the last commit, if an interrupt left it behind the rows."""
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
        # A second error about the same journal would hide the first.
        with contextlib.suppress(ExecutionError) if error else contextlib.nullcontext():
            self.close()


class AnyJournal(Protocol):
    """Append-only runs; `tests/journal/test_contract.py` checks the contract for every implementation."""

    @property
    def label(self) -> str:
        """Its name in messages."""

    def start(self, record: RunRecord, *, batch: int | None = DEFAULT_BATCH) -> Writer:
        """A writer for a new run."""

    def resume(self, run: RunId, *, batch: int | None = DEFAULT_BATCH) -> Writer:
        """A writer that continues after the last event, with its hash."""

    def runs(self) -> tuple[RunRecord, ...]:
        """In order of creation."""

    def read(self, run: RunId, *, after: int = 0) -> Iterator[Entry]:
        """The events numbered above `after`."""

    def summary(self, run: RunId) -> Summary:
        """The state of the run, without reading all of it."""


@dataclass(slots=True, kw_only=True)
class _StoredRun:
    """An `EntrySink` in memory."""

    record: RunRecord
    keeps_lines: bool
    head: JournalHead = field(default_factory=lambda: LineHash().head)
    rows: list[Row] = field(default_factory=list)
    is_open: bool = True

    def store(self, rows: Sequence[Row], *, before: JournalHead, after: JournalHead) -> None:
        if self.head == after:
            return  # this commit was interrupted after it was done, and is retried
        if self.keeps_lines:
            self.rows.extend(rows)
        else:
            self.rows = [rows[-1]]
        self.head = after

    def close(self) -> None:
        self.is_open = False


class MemoryJournal:
    """Like `Journal`. Without `keeps_lines` a run takes no memory and has a summary, but cannot be read."""

    def __init__(self, *, keeps_lines: bool = True) -> None:
        self._keeps_lines = keeps_lines
        self._runs: dict[RunId, _StoredRun] = {}

    @property
    def label(self) -> str:
        return "in memory"

    def start(self, record: RunRecord, *, batch: int | None = DEFAULT_BATCH) -> Writer:
        if record.run in self._runs:
            raise JobError(f"run {record.run} exists already in the journal in memory; use another id")
        run = self._runs[record.run] = _StoredRun(record=record, keeps_lines=self._keeps_lines)
        return Writer(record.run, run, at=LineHash(), batch=batch)

    def resume(self, run: RunId, *, batch: int | None = DEFAULT_BATCH) -> Writer:
        found = self._run(run)
        if found.is_open:
            raise ExecutionError(f"run {run} in memory is being written; close its writer first")
        hashed = hash_entries(self.read(run))
        found.is_open = True
        return Writer(run, found, at=hashed, batch=batch)

    def runs(self) -> tuple[RunRecord, ...]:
        records = [run.record for run in self._runs.values()]
        return tuple(sorted(records, key=lambda record: (record.created_utc, record.run)))

    def read(self, run: RunId, *, after: int = 0) -> Iterator[Entry]:
        found = self._run(run)
        if not self._keeps_lines:
            raise JobError(f"run {run} cannot be read: its journal keeps no lines; use keeps_lines=True")
        return (to_entry(*row[1:]) for row in found.rows[after:])

    def summary(self, run: RunId) -> Summary:
        found = self._run(run)
        last = to_entry(*found.rows[-1][1:]) if found.rows else None
        writer = "this process" if found.is_open else None
        return Summary(record=found.record, head=found.head, last=last, writer=writer)

    def _run(self, run: RunId) -> _StoredRun:
        if run not in self._runs:
            listed = ", ".join(list(self._runs)[:10]) or "none"
            raise JobError(f"run {run} is not in the journal in memory; there are: {listed}")
        return self._runs[run]
