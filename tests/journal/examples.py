"""Runs and lines for the tests of the journal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from elastune.journal.records import Entry, RunId, RunRecord, RuntimeKind
from elastune.journal.writer import AnyJournal, Writer

NOON = datetime(2026, 11, 16, 12, 0, 0, 250_000, tzinfo=UTC)
RUN = RunId("3fa2c1")


def record(run: str = RUN, *, policy: str = "asha", seed: int = 7, later_s: float = 0) -> RunRecord:
    return RunRecord(
        run=RunId(run),
        name="résumé of ResNet",
        created_utc=NOON + timedelta(seconds=later_s),
        body=RuntimeKind.SIMULATED,
        policy=policy,
        seed=seed,
    )


def entry(number: int, commands: int | None = None) -> Entry:
    count = number % 3 if commands is None else commands
    return Entry(
        number=number,
        event_line=f'{{"at_s":{number}.5,"kind":"rows_reported","text":"größer \\n 木"}}',
        command_lines=tuple(
            f'{{"kind":"train","part":{part},"until_s":{number}}}' for part in range(1, count + 1)
        ),
    )


def entries(first: int, last: int) -> list[Entry]:
    return [entry(number) for number in range(first, last + 1)]


def append(writer: Writer, first: int, last: int) -> None:
    for item in entries(first, last):
        writer.append(item.number, item.lines)


def write_run(journal: AnyJournal, events: int, run: RunRecord | None = None) -> str:
    """A whole run; its hash."""
    with journal.start(run or record()) as writer:
        append(writer, 1, events)
    return writer.sha256
