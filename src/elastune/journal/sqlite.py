"""A journal in one SQLite file, with one lock file beside it per run that is being written.

The lock is a separate file because closing any handle of a database file drops SQLite's own locks on it
(https://www.sqlite.org/howtocorrupt.html, 2.2). The kernel releases it when the process dies, in any way.

The database is in WAL mode only while it is written, so that readers and the writer do not wait for each
other; else it is a plain file, because even reading a file in WAL mode leaves `-wal` and `-shm` beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sqlite3
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from elastune.errors import JobError
from elastune.journal.backend import Session, explained, is_being_written
from elastune.journal.records import RunId

# `writer_of` holds the lock for an instant, too, so a writer retries before it gives up.
_PATIENCE_S = 0.5
_PAUSE_S = 0.02


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Whether the lock was free. If so, it is held until the block ends, and then its file is removed."""
    handle = _acquire(path)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            path.unlink(missing_ok=True)
            os.close(handle)


def writer_of(path: Path) -> str | None:
    """The holder of the lock; None for a file that a crash left behind."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if _try(handle, fcntl.LOCK_SH):
            return None
        return os.read(handle, 500).decode(errors="replace").strip() or "another process"
    finally:
        os.close(handle)


def _acquire(path: Path) -> int | None:
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if _try(handle, fcntl.LOCK_EX) and _is_still(path, handle):
            os.truncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            return handle
        os.close(handle)
        if time.monotonic() > give_up:
            return None
        time.sleep(_PAUSE_S)


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, handle: int) -> bool:
    """The former holder may have removed the file between opening and locking."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


BUSY_TIMEOUT_S = 30.0
_MAGIC = b"SQLite format 3\0"
_WAL_FORMAT = b"\2\2"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteFile:
    """A `Backend` for a file."""

    path: Path
    engine: sa.Engine

    @property
    def label(self) -> str:
        return str(self.path)

    @contextlib.contextmanager
    def creating(self) -> Iterator[sa.Connection]:
        with self._connect_to_write() as connection, connection.begin():
            yield connection

    def refuse_strangers(self, connection: sa.Connection) -> None:
        tables = sorted(sa.inspect(connection).get_table_names())
        if tables:
            raise JobError(
                f"{self.path} is an SQLite file but not a journal: it holds {', '.join(tables[:5])}; "
                "name a new file or a journal"
            )

    def begin_writing(self, run: RunId) -> Session:
        with contextlib.ExitStack() as stack:
            if not stack.enter_context(locked(self._lock(run))):
                raise is_being_written(run, self.writer(run) or "another process", self.label)
            connection = stack.enter_context(self._connect_to_write())
            _set_journal_mode(connection, "wal")
            stack.callback(_leave_wal, connection)
            return Session(connection=connection, open_things=stack.pop_all())

    def writer(self, run: RunId) -> str | None:
        return writer_of(self._lock(run))

    def _lock(self, run: RunId) -> Path:
        return self.path.with_name(f"{self.path.name}-{run}.lock")

    def _connect_to_write(self) -> sa.Connection:
        return self.engine.connect().execution_options(sqlite_begin="BEGIN IMMEDIATE")


def open_file(path: Path, *, read_only: bool, durable: bool) -> SqliteFile:
    """Check the file; SQLite creates it with the first table."""
    path = path.absolute()
    with explained(str(path)):
        is_there = _is_database(path)
    if not is_there:
        if read_only:
            raise JobError(f"there is no journal at {path}; expected the journal.sqlite of a run's folder")
        if not path.parent.is_dir():
            raise JobError(
                f"the journal {path} cannot be created: {path.parent} is not a folder; create it first"
            )

    def connect() -> sqlite3.Connection:
        mode = _reading_mode(path) if read_only else "mode=rwc"
        address = f"file:{urllib.parse.quote(str(path))}?{mode}"
        connection = sqlite3.connect(
            address, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool)
    sa.event.listen(engine, "begin", _begin)
    return SqliteFile(path=path, engine=engine)


def _begin(connection: sa.Connection) -> None:
    """Python's driver would begin a transaction late, and not at all before CREATE TABLE."""
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


def _is_database(path: Path) -> bool:
    """Whether there is an SQLite file; raises if there is something else."""
    if not path.exists():
        return False
    if not path.is_file():
        raise JobError(f"{path} is a folder; expected a file such as {path / 'journal.sqlite'}")
    with path.open("rb") as file:
        start = file.read(len(_MAGIC))
    if start not in (b"", _MAGIC):
        raise JobError(f"{path} is not a journal (not an SQLite file); name a new file or a journal")
    return start == _MAGIC


def _reading_mode(path: Path) -> str:
    """To read an unused file in WAL mode (a copy, say) SQLite would create `-wal` and `-shm` beside it.

    `immutable` avoids that, but takes no locks and misses a writer that begins meanwhile. Hence `_leave_wal`.
    """
    with path.open("rb") as file:
        file.seek(18)
        in_wal_mode = file.read(2) == _WAL_FORMAT
    is_unused = not path.with_name(f"{path.name}-wal").exists()
    return "mode=ro&immutable=1" if in_wal_mode and is_unused else "mode=ro"


def _set_journal_mode(connection: sa.Connection, mode: str) -> None:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    try:
        driver.execute(f"PRAGMA journal_mode={mode}")
    except sqlite3.OperationalError as error:
        raise sa.exc.OperationalError("PRAGMA journal_mode", None, error) from error


def _leave_wal(connection: sa.Connection) -> None:
    """Back to a plain file, unless another process has it open; then the next writer that ends does it."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.execute("PRAGMA busy_timeout=0")
    with contextlib.suppress(sa.exc.OperationalError):
        _set_journal_mode(connection, "delete")
