"""The journal in a database: runs as numbered events with their commands, append-only.

It also decides which backend a path or URL means. The codec defines the lines, the backend stores them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from elastune.errors import ExecutionError, InvariantError, JobError
from elastune.journal import backend as schema
from elastune.journal.backend import Backend, Session, explained
from elastune.journal.postgres import SCHEMES, open_server
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
from elastune.journal.sqlite import open_file
from elastune.journal.writer import DEFAULT_BATCH, Row, Writer


def open_backend(where: str | Path, *, read_only: bool, durable: bool) -> Backend:
    """A file's path, `sqlite:///PATH` or `postgresql://USER:PASSWORD@HOST/DATABASE`."""
    if isinstance(where, Path) or "://" not in where:
        return open_file(Path(where), read_only=read_only, durable=durable)
    scheme = where.partition("://")[0]
    try:
        url = make_url(where)
    except (sa.exc.ArgumentError, ValueError):
        # The message does not repeat the URL: it may hold a password.
        raise JobError(
            f"the URL {scheme}://... of the journal cannot be read; expected postgresql://USER@HOST/DATABASE"
        ) from None
    if url.drivername in SCHEMES:
        return open_server(url, read_only=read_only, durable=durable)
    if url.drivername == "sqlite" and url.database not in (None, "", ":memory:"):
        return open_file(Path(str(url.database)), read_only=read_only, durable=durable)
    raise JobError(
        f"the journal is at {scheme}://...; expected the path of a file, sqlite:///PATH or "
        "postgresql://USER@HOST/DATABASE"
    )


# Events per page, each read in its own short transaction: a slow reader must not keep SQLite from emptying
# its write-ahead log. Pages are consistent because a journal is append-only.
_PAGE = 1_000
_NAMED_AT_MOST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """One database with any number of runs. Only its writers hold connections open."""

    backend: Backend
    read_only: bool

    @classmethod
    def open(cls, where: str | Path, *, read_only: bool = False, durable: bool = True) -> Self:
        """At a path or URL; created if absent, unless `read_only`: then nothing is created or changed.

        `durable`: a commit waits for the disk, so it survives a power cut. Without it (simulated runs, which
        can be repeated) a power cut may lose the last commits; a crash of the process loses none.
        """
        backend = open_backend(where, read_only=read_only, durable=durable)
        with explained(backend.label):
            with backend.engine.connect() as connection:
                found = schema.is_there(connection, backend.label)
            if not found and read_only:
                raise JobError(f"{backend.label} holds no journal; expected the tables that a run creates")
            if not found:
                with backend.creating() as connection:
                    if not schema.is_there(connection, backend.label):
                        backend.refuse_strangers(connection)
                        schema.create(connection)
        return cls(backend=backend, read_only=read_only)

    @property
    def label(self) -> str:
        return self.backend.label

    def start(self, record: RunRecord, *, batch: int | None = DEFAULT_BATCH) -> Writer:
        with self._writing(record.run) as session, explained(self.label), session.connection.begin():
            try:
                session.connection.execute(schema.runs.insert(), schema.to_row(record))
            except sa.exc.IntegrityError:
                raise JobError(
                    f"run {record.run} exists already in the journal {self.label}; resume it or use a new id"
                ) from None
        return self._writer(record.run, session, LineHash(), batch)

    def resume(self, run: RunId, *, batch: int | None = DEFAULT_BATCH) -> Writer:
        """A writer that continues after the last event. Reads all lines and so detects damage."""
        self._row(run)
        with self._writing(run) as session:
            hashed = hash_entries(self.read(run))
            there, written = hashed.head, schema.to_head(self._row(run))
            if there != written:
                seen = f"found {there.events} events with the hash {there.sha256[:12]}"
                raise self._damaged(run, f"{seen}, expected {written.events} with {written.sha256[:12]}")
        return self._writer(run, session, hashed, batch)

    def runs(self) -> tuple[RunRecord, ...]:
        query = sa.select(schema.runs).order_by(schema.runs.c.created_utc, schema.runs.c.run)
        with explained(self.label), self.backend.engine.connect() as connection:
            return tuple(schema.to_record(row) for row in connection.execute(query))

    def read(self, run: RunId, *, after: int = 0) -> Iterator[Entry]:
        """The events numbered above `after`, page by page, including those committed meanwhile."""
        self._row(run)
        return self._pages(run, after)

    def _pages(self, run: RunId, after: int) -> Iterator[Entry]:
        table = schema.entries.c
        page = (
            sa.select(table.number, table.event, table.commands)
            .where(table.run == run, table.number > sa.bindparam("after"))
            .order_by(table.number)
            .limit(_PAGE)
        )
        with explained(self.label):
            connection = self.backend.engine.connect()
        with connection:
            rows = None
            while rows is None or len(rows) == _PAGE:
                with explained(self.label), connection.begin():
                    rows = connection.execute(page, {"after": after}).all()
                for number, event, commands in rows:
                    after += 1
                    if number != after:
                        raise self._damaged(run, f"event {after} is missing, the next one is {number}")
                    yield to_entry(number, event, commands)

    def summary(self, run: RunId) -> Summary:
        """From two rows, however long the run is."""
        row = self._row(run)
        head = schema.to_head(row)
        last = next(self._pages(run, after=head.events - 1), None) if head.events else None
        if head.events and last is None:
            raise self._damaged(run, f"the last event, {head.events}, is missing")
        with explained(self.label):
            writer = self.backend.writer(run)
        return Summary(record=schema.to_record(row), head=head, last=last, writer=writer)

    def _row(self, run: RunId) -> sa.Row[tuple[object, ...]]:
        with explained(self.label), self.backend.engine.connect() as connection:
            row = connection.execute(sa.select(schema.runs).where(schema.runs.c.run == run)).first()
        if row is None:
            there = [record.run for record in self.runs()]
            more = f" and {len(there) - _NAMED_AT_MOST} more" if len(there) > _NAMED_AT_MOST else ""
            listed = ", ".join(there[:_NAMED_AT_MOST]) + more if there else "none"
            raise JobError(f"run {run} is not in the journal {self.label}; there are: {listed}")
        return row

    @contextlib.contextmanager
    def _writing(self, run: RunId) -> Iterator[Session]:
        """A session that stays open unless the block fails."""
        if self.read_only:
            raise InvariantError(f"run {run}: the journal {self.label} was opened read-only")
        with explained(self.label):
            session = self.backend.begin_writing(run)
        try:
            yield session
        except BaseException:
            session.close()
            raise

    def _writer(self, run: RunId, session: Session, at: LineHash, batch: int | None) -> Writer:
        insert = str(schema.entries.insert().compile(dialect=session.connection.dialect))
        table = _Table(run=run, session=session, label=self.label, insert=insert)
        return Writer(run, table, at=at, batch=batch)

    def _damaged(self, run: RunId, found: str) -> ExecutionError:
        return ExecutionError(
            f"run {run} in the journal {self.label} is damaged: {found}; restore the journal from a copy"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """An `EntrySink` for the table of entries."""

    run: RunId
    session: Session
    label: str
    insert: str

    def store(self, rows: Sequence[Row], *, before: JournalHead, after: JournalHead) -> None:
        connection = self.session.connection
        runs = schema.runs
        advance = (
            runs.update()
            .where(runs.c.run == self.run, runs.c.events == before.events, runs.c.sha256 == before.sha256)
            .values(events=after.events, lines=after.lines, sha256=after.sha256)
        )
        with explained(self.label), connection.begin():
            if connection.execute(advance).rowcount != 1:
                row = connection.execute(sa.select(runs).where(runs.c.run == self.run)).first()
                if row is not None and schema.to_head(row) == after:
                    return  # this commit was interrupted after it was done, and is retried
                raise ExecutionError(
                    f"run {self.run} in the journal {self.label} is no longer at event {before.events}: "
                    "another process wrote to it, but a run has one writer at a time; stop this process, "
                    f"its events from {before.events + 1} on are not stored"
                )
            connection.exec_driver_sql(self.insert, list(rows))

    def close(self) -> None:
        with explained(self.label):
            self.session.close()
