"""A journal as a file: what is refused, what reading leaves behind, what damage looks like."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from elastune.errors import ExecutionError, InvariantError, JobError
from elastune.journal.store import Journal
from tests.journal.examples import RUN, append, entries, record, write_run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a folder with ? and % and #" / "journal.sqlite"


@pytest.fixture
def journal(path: Path) -> Journal:
    path.parent.mkdir()
    return Journal.open(path)


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def state(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def test_a_journal_at_rest_is_one_file_and_not_in_wal_mode(path: Path, journal: Journal) -> None:
    write_run(journal, 3)
    assert [file.name for file in path.parent.iterdir()] == ["journal.sqlite"]
    assert path.read_bytes()[18:20] == b"\1\1"


def test_reading_a_journal_at_rest_makes_and_alters_nothing(path: Path, journal: Journal) -> None:
    write_run(journal, 3)
    before = state(path)
    reader = Journal.open(path, read_only=True)
    assert list(reader.read(RUN)) == entries(1, 3)
    assert reader.runs() == (reader.summary(RUN).record,)
    assert state(path) == before


def test_reading_a_journal_that_is_being_written_makes_no_file_and_alters_no_data(
    path: Path, journal: Journal
) -> None:
    with journal.start(record()) as writer:
        append(writer, 1, 3)
        writer.commit()
        before = state(path)
        assert list(Journal.open(path, read_only=True).read(RUN)) == entries(1, 3)
        after = state(path)
    assert set(after) == set(before)
    assert {name for name in before if after[name] != before[name]} <= {"journal.sqlite-shm"}


def test_reading_a_copy_taken_while_the_journal_was_written_makes_nothing(
    path: Path, journal: Journal
) -> None:
    with journal.start(record()) as writer:
        append(writer, 1, 3)
        writer.commit()
        change(path, "PRAGMA wal_checkpoint(TRUNCATE)")
        copy = path.parent / "copies" / "copy.sqlite"
        copy.parent.mkdir()
        shutil.copy(path, copy)
    before = state(copy)
    assert list(Journal.open(copy, read_only=True).read(RUN)) == entries(1, 3)
    assert state(copy) == before


def test_a_reader_sees_what_is_committed_while_it_looks(path: Path, journal: Journal) -> None:
    with journal.start(record(), batch=1) as writer:
        append(writer, 1, 2)
        reader = Journal.open(path, read_only=True)
        seen = reader.read(RUN)
        assert next(seen) == entries(1, 1)[0]
        append(writer, 3, 4)
        assert list(seen) == entries(2, 2)
        assert list(reader.read(RUN, after=2)) == entries(3, 4)


def test_a_reader_does_not_write(path: Path, journal: Journal) -> None:
    with pytest.raises(InvariantError, match="opened read-only"):
        Journal.open(path, read_only=True).start(record())


def test_a_url_and_a_path_mean_the_same_file(path: Path, journal: Journal) -> None:
    write_run(journal, 1)
    shutil.copy(path, path.parents[1] / "plain.sqlite")
    assert Journal.open(f"sqlite:///{path.parents[1]}/plain.sqlite", read_only=True).runs() == journal.runs()


def test_reading_where_nothing_is_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="there is no journal at"):
        Journal.open(tmp_path / "journal.sqlite", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_becomes_a_journal_but_is_none_for_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.touch()
    with pytest.raises(JobError, match="there is no journal at"):
        Journal.open(path, read_only=True)
    assert path.stat().st_size == 0
    write_run(Journal.open(path), 1)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("name: a job that is long enough to be mistaken for a database\n")
    with pytest.raises(JobError, match=r"is not a journal \(not an SQLite file"):
        Journal.open(path, read_only=read_only)
    assert path.read_text().startswith("name: a job")


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "optuna.db"
    change(path, "CREATE TABLE studies (study_id INTEGER)")
    before = path.read_bytes()
    with pytest.raises(JobError, match="an SQLite file but not a journal: it holds studies"):
        Journal.open(path)
    with pytest.raises(JobError, match="holds no journal"):
        Journal.open(path, read_only=True)
    assert path.read_bytes() == before


def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"is a folder; expected a file such as .*journal\.sqlite"):
        Journal.open(tmp_path)


def test_a_journal_needs_its_folder(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="nowhere is not a folder; create it first"):
        Journal.open(tmp_path / "nowhere" / "journal.sqlite")


@pytest.mark.parametrize("read_only", [True, False])
def test_a_journal_of_a_newer_version_is_refused(path: Path, journal: Journal, read_only: bool) -> None:
    change(path, "INSERT INTO elastune_schema VALUES (9)")
    with pytest.raises(JobError, match="has schema version 9; expected at most 1"):
        Journal.open(path, read_only=read_only)


def test_an_event_that_is_missing_is_damage(path: Path, journal: Journal) -> None:
    write_run(journal, 5)
    change(path, "DELETE FROM elastune_entries WHERE number = 3")
    with pytest.raises(
        ExecutionError, match=r"run 3fa2c1 .* is damaged: event 3 is missing, the next one is 4"
    ):
        list(journal.read(RUN))


def test_a_missing_end_is_damage(path: Path, journal: Journal) -> None:
    write_run(journal, 5)
    change(path, "DELETE FROM elastune_entries WHERE number = 5")
    with pytest.raises(ExecutionError, match="the last event, 5, is missing"):
        journal.summary(RUN)
    with pytest.raises(ExecutionError, match=r"found 4 events with the hash \w+, expected 5 with"):
        journal.resume(RUN)
    assert journal.backend.writer(RUN) is None


def test_an_altered_line_is_damage(path: Path, journal: Journal) -> None:
    write_run(journal, 5)
    change(path, "UPDATE elastune_entries SET event = '{}' WHERE number = 2")
    with pytest.raises(ExecutionError, match="is damaged: found 5 events with the hash"):
        journal.resume(RUN)


def test_overwritten_pages_are_damage(path: Path, journal: Journal) -> None:
    write_run(journal, 2_000)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 20_000)
    with pytest.raises(ExecutionError, match=r"is damaged \(.*\.recover"):
        Journal.open(path, read_only=True).runs()


def test_a_journal_locked_for_too_long_is_reported_and_can_be_tried_again(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastune.journal.sqlite.BUSY_TIMEOUT_S", 0.05)
    writer = journal.start(record(), batch=None)
    append(writer, 1, 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ExecutionError, match="is locked by another process"):
        writer.commit()
    other.rollback()
    other.close()
    writer.commit()
    writer.close()
    assert list(journal.read(RUN)) == entries(1, 1)


@pytest.mark.parametrize(
    "where", ["mysql://secret@host/x", "sqlite://", "sqlite:///:memory:", "postgresql+x://h/d"]
)
def test_other_databases_are_refused(where: str) -> None:
    with pytest.raises(
        JobError, match=r"expected the path of a file, sqlite:///PATH or postgresql://"
    ) as caught:
        Journal.open(where)
    assert "secret" not in str(caught.value)
