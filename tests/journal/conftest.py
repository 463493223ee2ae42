"""The databases that the journal's tests run on."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from elastune.journal.store import Journal
from elastune.journal.writer import AnyJournal, MemoryJournal
from tests.journal.postgres_server import NoServerError, running_server

_COUNT = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    pytest.importorskip("psycopg")
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(running_server())
        except NoServerError as reason:
            pytest.skip(str(reason))
        yield url


@pytest.fixture
def postgres_url(server: str) -> str:
    """An empty database of its own for every test."""
    name = f"journal_{next(_COUNT)}"
    url = sa.make_url(server)
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return url.set(database=name).render_as_string()


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a journal that several processes can open."""
    if request.param == "sqlite":
        return str(tmp_path / "journal.sqlite")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AnyJournal:
    """Every kind of journal."""
    if request.param == "sqlite":
        return Journal.open(tmp_path / "journal.sqlite")
    if request.param == "postgres":
        return Journal.open(request.getfixturevalue("postgres_url"))
    return MemoryJournal()
