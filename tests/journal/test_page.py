"""What the page about the journal shows is what happens."""

from __future__ import annotations

import contextlib
import hashlib
import io
import sqlite3
from pathlib import Path

import pytest

from elastune.journal import Journal
from tests.journal.examples import RUN
from tests.test_documents import ROOT, blocks

PAGE = (ROOT / "docs" / "journal.md").read_text(encoding="utf-8")


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(blocks(PAGE, "python")[0], "example", "exec"), {})
    return output.getvalue()


def test_the_example_prints_what_the_page_shows(printed: str) -> None:
    assert printed == blocks(PAGE, "text")[0]


def test_the_queries_give_what_the_page_says(printed: str) -> None:
    with contextlib.closing(sqlite3.connect("journal.sqlite")) as connection:
        runs, events, commands, lines = (
            connection.execute(query).fetchall() for query in blocks(PAGE, "sql")
        )
    assert [row[:5] for row in runs] == [("3fa2c1", "resnet101", "asha", 7, 2)]
    assert events == [(1, 0.0, "run_started"), (2, 31.5, "node_ready")]
    assert commands == [(1, 1, '{"kind":"request_nodes","nodes":4}')]
    text = "".join(f"{line}\n" for (line,) in lines)
    assert (
        hashlib.sha256(text.encode()).hexdigest() == Journal.open("journal.sqlite").summary(RUN).head.sha256
    )
