"""The tables of a journal, the same in SQLite and PostgreSQL.

An event lies in one row together with its commands: so no transaction, however it ends, splits them. The
names have a prefix because a PostgreSQL database is often shared (MLflow, too, has a table `runs`).
"""

from __future__ import annotations

import sqlalchemy as sa

from elastune.errors import ExecutionError, JobError
from elastune.journal.hashing import LineHash
from elastune.journal.records import Body, Head, RunId, RunRecord, from_text, to_text

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
        body=Body(row.body),
        policy=row.policy,
        seed=row.seed,
    )


def to_head(row: sa.Row[tuple[object, ...]]) -> Head:
    return Head(events=row.events, lines=row.lines, sha256=row.sha256)
