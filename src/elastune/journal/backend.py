"""The tables of a journal, and what it needs of a database beyond SQL (see `sqlite` and `postgres`).

An event and its commands share one row, so no transaction can split them. Table names have a prefix because a
PostgreSQL database is often shared (MLflow has a table `runs`, too).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Protocol

import sqlalchemy as sa

from elastune.errors import ElastuneError, ExecutionError, JobError
from elastune.journal.records import JournalHead, LineHash, RunId, RunRecord, RuntimeKind, to_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The only connection that may write one run, until it is closed or its process ends."""

    connection: sa.Connection
    open_things: contextlib.ExitStack = field(repr=False)

    def close(self) -> None:
        self.open_things.close()


class Backend(Protocol):
    """A database for a journal, which may not have its tables yet."""

    @property
    def label(self) -> str:
        """Its name in messages, without a password."""

    @property
    def engine(self) -> sa.Engine:
        """Without a pool, so that closing a connection releases its locks."""

    def creating(self) -> contextlib.AbstractContextManager[sa.Connection]:
        """A transaction that excludes other processes which create tables."""

    def refuse_strangers(self, connection: sa.Connection) -> None:
        """Raise if the database belongs to another program."""

    def begin_writing(self, run: RunId) -> Session:
        """Raise if another process is writing the run."""

    def writer(self, run: RunId) -> str | None:
        """The process that is writing the run. Changes nothing and blocks others only for an instant."""


def is_being_written(run: RunId, writer: str, label: str) -> ExecutionError:
    return ExecutionError(
        f"run {run} in {label} is being written by {writer}; expected no other writer: "
        "wait until that one ends, or stop it first"
    )


@contextlib.contextmanager
def explained(label: str) -> Iterator[None]:
    """Turns a driver's exception into an error that says what to do."""
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
            f"the journal {label} is locked by another process; try again when that has ended"
        )
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return ExecutionError(
            f"the journal {label} is damaged ({found}); restore it from a copy, or recover the readable "
            "part with `sqlite3 FILE .recover`"
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
    """Whether the database holds a journal; raises if this version cannot read it."""
    if not sa.inspect(connection).has_table(schema.name):
        return False
    version = connection.scalar(sa.select(sa.func.max(schema.c.version)))
    if version is None:
        raise ExecutionError(f"the journal {label} is damaged: its table {schema.name} is empty")
    if version > VERSION:
        raise JobError(
            f"the journal {label} has schema version {version}; expected at most {VERSION}: it was written "
            "by a newer Elastune, install that one"
        )
    return True


def to_row(record: RunRecord) -> dict[str, str | int]:
    texts = {"created_utc": to_text(record.created_utc), "body": record.body.value}
    return {**asdict(record), **texts, **asdict(LineHash().head)}


def to_record(row: sa.Row[tuple[object, ...]]) -> RunRecord:
    return RunRecord(
        run=RunId(row.run),
        name=row.name,
        created_utc=datetime.fromisoformat(row.created_utc),
        body=RuntimeKind(row.body),
        policy=row.policy,
        seed=row.seed,
    )


def to_head(row: sa.Row[tuple[object, ...]]) -> JournalHead:
    return JournalHead(events=row.events, lines=row.lines, sha256=row.sha256)
