"""What callers need of a journal, whether it lies in a database or in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from elastune.journal.records import Entry, RunId, RunRecord, Summary
from elastune.journal.writer import DEFAULT_BATCH, Writer


class AnyJournal(Protocol):
    """Runs, only ever appended to; `tests/journal/test_contract.py` says what every kind has to keep."""

    @property
    def label(self) -> str:
        """How messages name it."""

    def start(self, record: RunRecord, *, batch: int | None = DEFAULT_BATCH) -> Writer:
        """A writer for a new run."""

    def resume(self, run: RunId, *, batch: int | None = DEFAULT_BATCH) -> Writer:
        """A writer that goes on after the last event, its hash as well."""

    def runs(self) -> tuple[RunRecord, ...]:
        """In the order they were created."""

    def read(self, run: RunId, *, after: int = 0) -> Iterator[Entry]:
        """The events numbered above `after`."""

    def summary(self, run: RunId) -> Summary:
        """How the run stands, without reading it all."""
