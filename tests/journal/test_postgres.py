"""What is special about a journal in PostgreSQL."""

from __future__ import annotations

import sys

import pytest
import sqlalchemy as sa

from elastune.errors import ExecutionError, JobError
from elastune.journal.store import Journal
from tests.journal.examples import RUN, append, entries, record, write_run


def execute(journal: Journal, statement: str) -> None:
    with journal.backend.engine.begin() as connection:
        connection.exec_driver_sql(statement)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_way_to_write_the_url_works(postgres_url: str, scheme: str) -> None:
    journal = Journal.open(postgres_url.replace("postgresql", scheme, 1))
    write_run(journal, 3)
    assert list(journal.read(RUN)) == entries(1, 3)


def test_a_database_may_be_shared_with_others(postgres_url: str) -> None:
    engine = sa.create_engine(
        sa.make_url(postgres_url).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool
    )
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE runs (run_uuid text)")
    journal = Journal.open(postgres_url)
    write_run(journal, 1)
    assert list(journal.read(RUN)) == entries(1, 1)


def test_a_reader_makes_nothing(postgres_url: str) -> None:
    with pytest.raises(JobError, match="holds no journal"):
        Journal.open(postgres_url, read_only=True)
    journal = Journal.open(postgres_url)
    assert journal.runs() == ()


def test_the_server_itself_refuses_what_a_reader_must_not_do(postgres_url: str) -> None:
    Journal.open(postgres_url)
    reader = Journal.open(postgres_url, read_only=True)
    with pytest.raises(sa.exc.InternalError, match="read-only transaction"):
        execute(reader, "DELETE FROM elastune_runs")


def test_a_journal_of_a_newer_version_is_refused(postgres_url: str) -> None:
    execute(Journal.open(postgres_url), "INSERT INTO elastune_schema VALUES (9)")
    with pytest.raises(JobError, match="has schema version 9"):
        Journal.open(postgres_url)


@pytest.mark.parametrize(("durable", "setting"), [(True, "on"), (False, "off")])
def test_only_a_durable_journal_waits_for_the_disk(postgres_url: str, durable: bool, setting: str) -> None:
    journal = Journal.open(postgres_url, durable=durable)
    with journal.backend.engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == setting


def test_a_lost_connection_is_reported_and_the_commit_can_be_tried_again(postgres_url: str) -> None:
    journal = Journal.open(postgres_url)
    writer = journal.start(record(), batch=None)
    append(writer, 1, 2)
    execute(
        journal,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND datname = current_database()",
    )
    with pytest.raises(ExecutionError, match="cannot be used: "):
        writer.commit()
    writer.commit()
    writer.close()
    assert list(journal.read(RUN)) == entries(1, 2)


def test_a_server_that_does_not_answer_is_reported_without_the_password() -> None:
    with pytest.raises(
        ExecutionError, match=r"postgresql://me:\*\*\*@127\.0\.0\.1:1/db.* cannot be used"
    ) as caught:
        Journal.open("postgresql://me:secret@127.0.0.1:1/db")
    assert "secret" not in str(caught.value)


def test_an_unreadable_url_is_refused_without_the_password() -> None:
    with pytest.raises(
        JobError, match=r"the URL postgresql://\.\.\. of the journal cannot be read"
    ) as caught:
        Journal.open("postgresql://me:secret@host:port/db")
    assert "secret" not in str(caught.value)


def test_without_the_driver_the_message_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(JobError, match=r"pip install 'elastune\[postgres\]'"):
        Journal.open("postgresql://host/db")
