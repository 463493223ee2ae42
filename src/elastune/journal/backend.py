"""What a journal needs of a database beyond SQL: SQLite and PostgreSQL each do it in their own module."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import sqlalchemy as sa

from elastune.errors import ElastuneError, ExecutionError, JobError
from elastune.journal.records import RunId


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
