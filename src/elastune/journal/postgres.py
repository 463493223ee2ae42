"""A journal in a PostgreSQL database, so that several machines can read the same runs.

A run's writer holds a session-level advisory lock, which the server drops with the connection. A pooler that
assigns connections per transaction (PgBouncer's `transaction` mode) therefore does not work.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection

from elastune.errors import JobError
from elastune.journal.backend import Session, is_being_written
from elastune.journal.records import RunId

SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDatabase:
    """A `Backend` for a server."""

    label: str
    engine: sa.Engine

    @contextlib.contextmanager
    def creating(self) -> Iterator[sa.Connection]:
        with self.engine.begin() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_lock_key("schema"))))
            yield connection

    def refuse_strangers(self, connection: sa.Connection) -> None:
        """Accepts every database: it is often shared, and Elastune's tables have a prefix."""

    def begin_writing(self, run: RunId) -> Session:
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(self.engine.connect())
            is_free = connection.scalar(sa.select(sa.func.pg_try_advisory_lock(_lock_key(run))))
            connection.commit()
            if not is_free:
                raise is_being_written(run, self.writer(run) or "another process", self.label)
            stack.callback(_unlock, connection, run)
            return Session(connection=connection, open_things=stack.pop_all())

    def writer(self, run: RunId) -> str | None:
        key = _lock_key(run) % 2**64
        with self.engine.connect() as connection:
            row = connection.execute(_HOLDER, {"high": key >> 32, "low": key % 2**32}).first()
        return f"server process {row.pid} for {row.client}" if row else None


def _unlock(connection: sa.Connection, run: RunId) -> None:
    """The server drops the lock of a closed connection too, but only a moment later."""
    with contextlib.suppress(sa.exc.SQLAlchemyError):  # of a connection that is lost
        connection.rollback()
        connection.execute(sa.select(sa.func.pg_advisory_unlock(_lock_key(run))))
        connection.commit()


_HOLDER = sa.text("""
    SELECT pid, coalesce(host(client_addr), 'a local client') AS client
    FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND classid = CAST(CAST(:high AS bigint) AS oid) AND objid = CAST(CAST(:low AS bigint) AS oid)
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
""")


def open_server(url: URL, *, read_only: bool, durable: bool) -> PostgresDatabase:
    """`durable=False`: the server answers before the data is on disk, so a crash of the *server* may lose the
    last few commits (never order or completeness), as NORMAL does in SQLite."""
    settings = [f"SET synchronous_commit = {'on' if durable else 'off'}"]
    if read_only:
        settings.append("SET default_transaction_read_only = on")
    try:
        engine = sa.create_engine(
            url.set(drivername="postgresql+psycopg"), paramstyle="format", poolclass=sa.NullPool
        )
    except ModuleNotFoundError as error:
        raise JobError(
            "a journal in PostgreSQL needs psycopg, which is not installed: pip install 'elastune[postgres]'"
        ) from error

    def prepare(connection: DBAPIConnection, _record: object) -> None:
        cursor = connection.cursor()
        for setting in settings:
            cursor.execute(setting)
        cursor.close()
        # A rollback would undo the settings.
        connection.commit()

    sa.event.listen(engine, "connect", prepare)
    return PostgresDatabase(label=url.render_as_string(hide_password=True), engine=engine)


def _lock_key(name: str) -> int:
    digest = hashlib.sha256(f"elastune journal {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
