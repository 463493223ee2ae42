"""A journal that ends with the process: for runs that keep no file and still want their hash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from elastune.errors import ExecutionError, JobError
from elastune.journal.hashing import LineHash, hash_entries
from elastune.journal.records import Entry, Head, RunId, RunRecord, Summary, to_entry
from elastune.journal.writer import DEFAULT_BATCH, Row, Writer


@dataclass(slots=True, kw_only=True)
class _Run:
    """`elastune.journal.writer.Sink` for a list."""

    record: RunRecord
    keeps_lines: bool
    head: Head = field(default_factory=lambda: LineHash().head)
    rows: list[Row] = field(default_factory=list)
    is_open: bool = True

    def store(self, rows: Sequence[Row], *, before: Head, after: Head) -> None:
        if self.head == after:
            return  # the same commit: it was interrupted when it was done, and is tried again
        if self.keeps_lines:
            self.rows.extend(rows)
        else:
            self.rows = [rows[-1]]
        self.head = after

    def close(self) -> None:
        self.is_open = False


class MemoryJournal:
    """As `Journal`. Without `keeps_lines` a run costs no memory, has a summary, and cannot be read."""

    def __init__(self, *, keeps_lines: bool = True) -> None:
        self._keeps_lines = keeps_lines
        self._runs: dict[RunId, _Run] = {}

    @property
    def label(self) -> str:
        return "in memory"

    def start(self, record: RunRecord, *, batch: int | None = DEFAULT_BATCH) -> Writer:
        if record.run in self._runs:
            raise JobError(f"run {record.run} is in the journal in memory already; take another id")
        run = self._runs[record.run] = _Run(record=record, keeps_lines=self._keeps_lines)
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
            raise JobError(f"run {run} cannot be read: its journal keeps no lines; use one that does")
        return (to_entry(*row[1:]) for row in found.rows[after:])

    def summary(self, run: RunId) -> Summary:
        found = self._run(run)
        last = to_entry(*found.rows[-1][1:]) if found.rows else None
        writer = "this process" if found.is_open else None
        return Summary(record=found.record, head=found.head, last=last, writer=writer)

    def _run(self, run: RunId) -> _Run:
        if run not in self._runs:
            listed = ", ".join(list(self._runs)[:10]) or "none"
            raise JobError(f"run {run} is not in the journal in memory; there are: {listed}")
        return self._runs[run]
