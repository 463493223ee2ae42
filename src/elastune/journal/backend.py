"""What a journal needs of a database beyond SQL: SQLite and PostgreSQL each do it in their own module.

The tables of a journal, the same in SQLite and PostgreSQL.

An event lies in one row together with its commands: so no transaction, however it ends, splits them. The
names have a prefix because a PostgreSQL database is often shared (MLflow, too, has a table `runs`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import sqlalchemy as sa

from elastune.errors import ElastuneError, ExecutionError, JobError
from elastune.journal.records import JournalHead, LineHash, RunId, RunRecord, RuntimeKind, from_text, to_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A connection that alone may write one run, until it is closed or its process ends."""

    connection: sa.Connection
    open_things: contextlib.ExitStack = field(repr=False)

    def close(self) -> None:
        self.open_things.close()


class Backend(Protocol):
    """A database that holds a journal, or may hold one."""

    @property
    def label(self) -> str:
        """How messages name it; without a password."""

    @property
    def engine(self) -> sa.Engine:
        """Without a pool: what is closed is closed, its locks too."""

    def creating(self) -> contextlib.AbstractContextManager[sa.Connection]:
        """A transaction that no other process creating tables runs beside."""

    def refuse_strangers(self, connection: sa.Connection) -> None:
        """Raise if tables for a journal do not belong into this database."""

    def begin_writing(self, run: RunId) -> Session:
        """Raise if another process writes the run."""

    def writer(self, run: RunId) -> str | None:
        """Which process writes the run now. Changes nothing and gets in nobody's way for long."""


def is_being_written(run: RunId, writer: str, label: str) -> ExecutionError:
    return ExecutionError(
        f"run {run} in {label} is being written by {writer}, and a run has one writer at a time; "
        "wait until that one ends, or stop it first"
    )


@contextlib.contextmanager
def explained(label: str) -> Iterator[None]:
    """Turns what a driver raises into an error that says what to do."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise _explain(error, label) from error
    except OSError as error:
        raise _unreachable(label, error) from error


def _explain(error: sa.exc.DBAPIError, label: str) -> ElastuneError:
    found = str(error.orig).strip()
    code = getattr(error.orig, "sqlite_errorname", "")
    if code.startswith("SQLITE_BUSY"):
        return ExecutionError(
            f"the journal {label} stays locked by another process; try again when it is done"
        )
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return ExecutionError(
            f"the journal {label} is damaged ({found}); "
            "`sqlite3 FILE .recover` saves what can be read, a copy or a backup saves more"
        )
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
        return _unreachable(label, found)
    return ExecutionError(f"the journal {label} cannot be used: {found}")


def _unreachable(label: str, found: object) -> JobError:
    return JobError(f"the journal {label} cannot be opened ({found}); check the folder and its permissions")


VERSION = 1

metadata = sa.MetaData()

schema = sa.Table("elastune_schema", metadata, sa.Column("version", sa.Integer, primary_key=True))

runs = sa.Table(
    "elastune_runs",
    metadata,
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created_utc", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("events", sa.BigInteger, nullable=False),
    sa.Column("lines", sa.BigInteger, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
)

entries = sa.Table(
    "elastune_entries",
    metadata,
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("commands", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)


def create(connection: sa.Connection) -> None:
    metadata.create_all(connection)
    connection.execute(schema.insert(), {"version": VERSION})


def is_there(connection: sa.Connection, label: str) -> bool:
    """Whether the database holds a journal; an error if it is one that this version cannot read."""
    if not sa.inspect(connection).has_table(schema.name):
        return False
    version = connection.scalar(sa.select(sa.func.max(schema.c.version)))
    if version is None:
        raise ExecutionError(f"the journal {label} is damaged: its table {schema.name} is empty")
    if version > VERSION:
        raise JobError(
            f"the journal {label} has schema version {version}, this Elastune knows {VERSION} at most; "
            "it was written by a newer one: install that"
        )
    return True


def to_row(record: RunRecord) -> dict[str, str | int]:
    head = LineHash().head
    return {
        "run": record.run,
        "name": record.name,
        "created_utc": to_text(record.created_utc),
        "body": record.body.value,
        "policy": record.policy,
        "seed": record.seed,
        "events": head.events,
        "lines": head.lines,
        "sha256": head.sha256,
    }


def to_record(row: sa.Row[tuple[object, ...]]) -> RunRecord:
    return RunRecord(
        run=RunId(row.run),
        name=row.name,
        created_utc=from_text(row.created_utc),
        body=RuntimeKind(row.body),
        policy=row.policy,
        seed=row.seed,
    )


def to_head(row: sa.Row[tuple[object, ...]]) -> JournalHead:
    return JournalHead(events=row.events, lines=row.lines, sha256=row.sha256)
