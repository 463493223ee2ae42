"""Microseconds per line to append, and to read back, beside other ways to lay out the same table.

The seconds depend on the machine and its disk; the ratios, measured in the same run, much less.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.journal.records import RunId, RunRecord, RuntimeKind, hash_lines
from elastune.journal.store import Journal
from elastune.journal.writer import AnyJournal, MemoryJournal
from tests.journal.postgres_server import NoServerError, running_server

RUN = RunId("3fa2c1")
RECORD = RunRecord(
    run=RUN,
    name="benchmark",
    created_utc=datetime(2026, 11, 16, tzinfo=UTC),
    body=RuntimeKind.SIMULATED,
    policy="asha",
    seed=0,
)
Events = list[list[str]]
BATCH = 2_000


def make_events(count: int) -> Events:
    """Reports of rows, with no, one or two commands each: 128 bytes a line."""
    return [[_event(number)] + [_command(number)] * (number % 3) for number in range(count)]


def _event(number: int) -> str:
    rows = f'[{{"at_s":{number}.25,"iteration":{number},"metrics":{{"accuracy":0.8123,"loss":0.5123}}}}]'
    return f'{{"at_s":{number}.25,"kind":"rows_reported","rows":{rows},"trial":"t-{number % 500:04}"}}'


def _command(number: int) -> str:
    gang = f'[["n-{number}",0],["n-{number}",1]]'
    return f'{{"gang":{gang},"kind":"train","trial":"t-{number % 500:04}","until_iteration":{number}}}'


def journal(kind: AnyJournal, events: Events) -> None:
    with kind.start(RECORD, batch=BATCH) as writer:
        for number, lines in enumerate(events, start=1):
            writer.append(number, lines)


def row_per_line(folder: Path, events: Events) -> None:
    """As `journal`, with the layout that comes to mind first: a row for each line, inserted by mappings."""
    metadata = sa.MetaData()
    table = sa.Table(
        "lines",
        metadata,
        sa.Column("run", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True),
        sa.Column("line", sa.Text),
        sqlite_with_rowid=False,
    )
    engine = sa.create_engine(f"sqlite:///{folder / 'plain.sqlite'}", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=wal")
        connection.exec_driver_sql("PRAGMA synchronous=NORMAL")
        connection.rollback()
        metadata.create_all(connection)
        rows: list[dict[str, object]] = []
        for number, lines in enumerate(events, start=1):
            for part, line in enumerate(lines):
                rows.append({"run": RUN, "number": number, "part": part, "line": line})
            if len(rows) >= BATCH:
                connection.execute(table.insert(), rows)
                connection.commit()
                rows = []
        connection.execute(table.insert(), rows)
        connection.commit()


def run(track: Track = silently) -> Report:
    return Report(tables=(measure(track),))


def measure(track: Track = silently, *, count: int = 50_000, repeats: int = 5) -> Table:
    events = make_events(count)
    total = sum(len(lines) for lines in events)
    rows: list[tuple[Cell, ...]] = []
    with _server() as url:
        for name, prepare in track(_contestants(url)):
            written, read = _timed(prepare, events, repeats)
            rows.append((name, written / total * 1e6, read and read / total * 1e6))
    return Table(
        name="appending",
        title=f"A run of {count} events, {total} lines, committed every {BATCH} lines",
        header=("journal", "append, µs per line", "read and hash, µs per line"),
        rows=tuple(rows),
        note=f"Wall time, median of {repeats}; appending includes hashing, all commits and closing.",
    )


Prepare = Callable[[Path], AnyJournal | None]


def _contestants(url: str | None) -> list[tuple[str, Prepare]]:
    found: list[tuple[str, Prepare]] = [
        ("memory, lines not kept", lambda _: MemoryJournal(keeps_lines=False)),
        ("memory", lambda _: MemoryJournal()),
        ("SQLite", lambda folder: Journal.open(folder / "journal.sqlite", durable=False)),
        ("SQLite, durable", lambda folder: Journal.open(folder / "journal.sqlite")),
        ("SQLite, a row per line", lambda _: None),
    ]
    if url:
        found.append(("PostgreSQL, fsync off", lambda _: _emptied(Journal.open(url))))
    return found


def _timed(prepare: Prepare, events: Events, repeats: int) -> tuple[float, float | None]:
    written, read = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            kind = prepare(Path(folder))
            start = time.perf_counter()
            if kind is None:
                row_per_line(Path(folder), events)
            else:
                journal(kind, events)
            written.append(time.perf_counter() - start)
            if isinstance(kind, Journal):
                start = time.perf_counter()
                hash_lines(kind.read(RUN))
                read.append(time.perf_counter() - start)
    return statistics.median(written), statistics.median(read) if read else None


def _emptied(kind: Journal) -> Journal:
    with kind.backend.engine.begin() as connection:
        connection.exec_driver_sql("TRUNCATE elastune_runs, elastune_entries")
    return kind


@contextlib.contextmanager
def _server() -> Iterator[str | None]:
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(running_server())
        except NoServerError:
            url = None
        yield url
