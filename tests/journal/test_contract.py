"""What every kind of journal keeps: in SQLite, in PostgreSQL, in memory."""

from __future__ import annotations

import hashlib

import pytest

from elastune.errors import ExecutionError, InvariantError, JobError
from elastune.journal.records import JournalHead, RunId, hash_lines
from elastune.journal.writer import AnyJournal
from tests.journal.examples import RUN, append, entries, entry, record, write_run


def test_what_was_appended_is_read_back(journal: AnyJournal) -> None:
    write_run(journal, 2_500)
    assert list(journal.read(RUN)) == entries(1, 2_500)


def test_reading_starts_after_a_number(journal: AnyJournal) -> None:
    write_run(journal, 10)
    assert list(journal.read(RUN, after=7)) == entries(8, 10)
    assert list(journal.read(RUN, after=10)) == []


def test_the_hash_is_that_of_all_lines_with_their_newlines(journal: AnyJournal) -> None:
    sha256 = write_run(journal, 50)
    text = "".join(f"{line}\n" for item in entries(1, 50) for line in item.lines)
    assert sha256 == hashlib.sha256(text.encode()).hexdigest() == hash_lines(journal.read(RUN))


def test_the_hash_runs_ahead_of_commits(journal: AnyJournal) -> None:
    with journal.start(record(), batch=None) as writer:
        append(writer, 1, 3)
        assert writer.sha256 == hash_lines(entries(1, 3))
        assert journal.summary(RUN).head.events == 0


def test_nothing_is_stored_before_a_commit_and_everything_after(journal: AnyJournal) -> None:
    with journal.start(record(), batch=None) as writer:
        append(writer, 1, 5_000)
        assert list(journal.read(RUN)) == []
        writer.commit()
        assert list(journal.read(RUN)) == entries(1, 5_000)


def test_a_full_batch_commits_whole_events(journal: AnyJournal) -> None:
    with journal.start(record(), batch=5) as writer:
        writer.append(1, entry(1, commands=3).lines)
        assert list(journal.read(RUN)) == []
        writer.append(2, entry(2, commands=3).lines)
        assert [len(item.lines) for item in journal.read(RUN)] == [4, 4]


def test_an_error_in_the_block_keeps_what_happened_before_it(journal: AnyJournal) -> None:
    def fail_after_three() -> None:
        with journal.start(record()) as writer:
            append(writer, 1, 3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_three()
    assert list(journal.read(RUN)) == entries(1, 3)


def test_a_resumed_run_is_the_run_that_never_stopped(journal: AnyJournal) -> None:
    whole = write_run(journal, 30, record("abcdef"))
    write_run(journal, 12)
    with journal.resume(RUN) as writer:
        assert writer.next_number == 13
        append(writer, 13, 30)
    assert writer.sha256 == whole
    assert list(journal.read(RUN)) == list(journal.read(RunId("abcdef")))


def test_runs_are_listed_in_the_order_of_their_creation(journal: AnyJournal) -> None:
    records = [record("b00000", later_s=1, seed=2**63 - 1), record("a00000.2", later_s=2), record("c00000.1")]
    for item in records:
        journal.start(item).close()
    assert journal.runs() == (records[2], records[0], records[1])


def test_runs_of_one_journal_are_written_side_by_side(journal: AnyJournal) -> None:
    with journal.start(record("a00000.1")) as first, journal.start(record("a00000.2")) as second:
        for number in range(1, 8):
            first.append(number, entry(number).lines)
            second.append(number, entry(number).lines)
            first.commit()
            second.commit()
    assert list(journal.read(RunId("a00000.1"))) == list(journal.read(RunId("a00000.2"))) == entries(1, 7)


def test_a_summary_tells_how_far_a_run_got(journal: AnyJournal) -> None:
    empty = journal.start(record())
    assert journal.summary(RUN).last is None
    empty.close()
    with journal.resume(RUN) as writer:
        append(writer, 1, 4)
    summary = journal.summary(RUN)
    assert summary.record == record()
    assert summary.head == JournalHead(events=4, lines=4 + 1 + 2 + 0 + 1, sha256=writer.sha256)
    assert summary.last == entry(4)


def test_a_summary_names_the_writer(journal: AnyJournal) -> None:
    with journal.start(record()):
        assert "process" in (journal.summary(RUN).writer or "")
    assert journal.summary(RUN).writer is None


def test_a_run_is_started_once(journal: AnyJournal) -> None:
    write_run(journal, 3)
    with pytest.raises(JobError, match=r"run 3fa2c1 exists already in the journal"):
        journal.start(record())
    assert list(journal.read(RUN)) == entries(1, 3)


def test_a_run_that_is_being_written_is_not_resumed(journal: AnyJournal) -> None:
    with journal.start(record()) as writer:
        append(writer, 1, 1)
        with pytest.raises(ExecutionError, match="is being written"):
            journal.resume(RUN)
    journal.resume(RUN).close()


@pytest.mark.parametrize("action", ["read", "resume", "summary"])
def test_an_unknown_run_is_refused_with_the_runs_there_are(journal: AnyJournal, action: str) -> None:
    write_run(journal, 1)
    with pytest.raises(JobError, match=r"run ffffff is not in the journal .*; there are: 3fa2c1"):
        getattr(journal, action)(RunId("ffffff"))


@pytest.mark.parametrize("number", [0, 1, 3, -1])
def test_numbers_are_consecutive(journal: AnyJournal, number: int) -> None:
    with journal.start(record()) as writer:
        append(writer, 1, 1)
        with pytest.raises(InvariantError, match=f"event {number} came, expected 2"):
            writer.append(number, ["{}"])
        append(writer, 2, 2)
    assert list(journal.read(RUN)) == entries(1, 2)


@pytest.mark.parametrize("lines", [[], [""], ["{}", ""], ["{\n}"], ["{}", "[\n]"], ["", "{}"]])
def test_lines_that_would_not_be_read_back_are_refused(journal: AnyJournal, lines: list[str]) -> None:
    with journal.start(record()) as writer:
        with pytest.raises(InvariantError, match="event 1 has no lines, an empty one, or one with a newline"):
            writer.append(1, lines)
        append(writer, 1, 1)
    assert list(journal.read(RUN)) == entries(1, 1)


def test_a_closed_writer_takes_nothing(journal: AnyJournal) -> None:
    writer = journal.start(record())
    writer.close()
    writer.close()
    with pytest.raises(InvariantError, match="event 1 came after the journal was closed"):
        append(writer, 1, 1)
