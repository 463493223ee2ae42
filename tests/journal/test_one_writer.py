"""Two processes never write one run at once, and a crash leaves whole events."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastune.errors import ExecutionError
from elastune.journal.backend import Session
from elastune.journal.records import hash_entries, hash_lines
from elastune.journal.store import Journal
from tests.journal.examples import RUN, append, entries, record, write_run
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
ENDLESS = """
import itertools, sys
from elastune.journal.store import Journal
from tests.journal.examples import entry, record
with Journal.open(sys.argv[1]).start(record(), batch=40) as writer:
    for number in itertools.count(1):
        writer.append(number, entry(number).lines)
"""


@pytest.fixture
def writing(where: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that writes the run until it is killed."""
    Journal.open(where)
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, where], cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_events(journal: Journal, process: subprocess.Popen[bytes], events: int) -> None:
    def are_there() -> bool:
        assert process.poll() is None
        return bool(journal.runs()) and journal.summary(RUN).head.events >= events

    wait_until(are_there)


@pytest.mark.parametrize("events", [1, 500, pytest.param(3_000, marks=pytest.mark.slow)])
def test_a_killed_writer_leaves_a_prefix_that_can_be_continued(
    where: str, writing: subprocess.Popen[bytes], events: int
) -> None:
    journal = Journal.open(where)
    wait_for_events(journal, writing, events)
    os.kill(writing.pid, signal.SIGKILL)
    writing.wait()
    wait_until(lambda: journal.summary(RUN).writer is None)
    found = list(Journal.open(where, read_only=True).read(RUN))
    assert found == entries(1, len(found))
    assert len(found) >= events
    with journal.resume(RUN) as writer:
        assert writer.next_number == len(found) + 1
        assert writer.sha256 == hash_lines(found)
        append(writer, len(found) + 1, len(found) + 5)
    assert writer.sha256 == hash_lines(entries(1, len(found) + 5)) == hash_lines(journal.read(RUN))


def test_while_another_process_writes_a_run_it_can_be_read_but_not_resumed(
    where: str, writing: subprocess.Popen[bytes]
) -> None:
    reader = Journal.open(where, read_only=True)
    wait_for_events(reader, writing, 100)
    found = list(reader.read(RUN))
    assert found == entries(1, len(found))
    assert reader.summary(RUN).writer
    with pytest.raises(ExecutionError, match=r"run 3fa2c1 in .* is being written by .*process \d+"):
        Journal.open(where).resume(RUN)
    assert writing.poll() is None


def overtake(journal: Journal, events: int) -> None:
    """Write as one for whom the lock did not hold (a network file system, a lost connection)."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(journal.backend.engine.connect())
        session = Session(connection=connection, open_things=stack)
        at = hash_entries(journal.read(RUN))
        with journal._writer(RUN, session, at, None) as writer:
            append(writer, writer.next_number, events)


def test_a_writer_that_was_overtaken_stores_nothing(where: str) -> None:
    journal = Journal.open(where)
    write_run(journal, 3)
    writer = journal.resume(RUN, batch=None)
    append(writer, 4, 6)
    overtake(journal, 5)
    with pytest.raises(ExecutionError, match=r"no longer at event 3: another process .* from 4 on are not"):
        writer.commit()
    with pytest.raises(ExecutionError, match="no longer at event 3"):
        writer.close()
    assert list(journal.read(RUN)) == entries(1, 5)
    assert journal.summary(RUN).writer is None


def test_leaving_the_block_does_not_hide_the_first_error(where: str) -> None:
    journal = Journal.open(where)

    def be_overtaken() -> None:
        with journal.start(record(), batch=None) as writer:
            append(writer, 1, 1)
            overtake(journal, 2)
            writer.commit()

    with pytest.raises(ExecutionError, match="no longer at event 0") as caught:
        be_overtaken()
    assert caught.value.__context__ is None
