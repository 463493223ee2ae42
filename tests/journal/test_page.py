"""The page about the journal shows what happens."""

from __future__ import annotations

import contextlib
import hashlib
import io
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from elastune.journal.store import Journal
from tests.cli.commands import elastune
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


def query(path: Path, run: str = RUN) -> list[list[tuple[Any, ...]]]:
    """What each query of the page returns for this run."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [connection.execute(sql.replace(RUN, run)).fetchall() for sql in blocks(PAGE, "sql")]


def test_the_example_prints_what_the_page_shows(printed: str) -> None:
    assert printed == blocks(PAGE, "text")[0]


def test_the_queries_return_what_the_page_says(printed: str) -> None:
    runs, events, commands, lines = query(Path("journal.sqlite"))
    assert [row[:5] for row in runs] == [("3fa2c1", "resnet101", "asha", 7, 2)]
    assert events == [(1, 0.0, "RunStarted"), (2, 31.5, "NodesReady")]
    assert commands == [(1, 1, "RequestNodes", '{"count":4,"request":1,"type":"RequestNodes"}')]
    text = "".join(f"{line}\n" for (line,) in lines)
    assert (
        hashlib.sha256(text.encode()).hexdigest() == Journal.open("journal.sqlite").summary(RUN).head.sha256
    )


def test_the_queries_work_on_the_journal_of_a_simulated_run(tmp_path: Path) -> None:
    elastune("simulate", str(ROOT / "examples" / "synthetic.yaml"), cwd=tmp_path)
    (path,) = tmp_path.glob("elastune-runs/*/journal.sqlite")
    runs, *_ = query(path)
    ((run, name, _, _, count, sha256),) = runs
    _, events, commands, lines = query(path, run)
    assert name == "synthetic"
    assert [number for number, _, _ in events] == list(range(1, count + 1))
    assert {"RunStarted", "NodesReady", "GangStarted"} <= {kind for _, _, kind in events}
    assert {"RequestNodes", "Train", "EndRun"} <= {kind for _, _, kind, _ in commands}
    assert None not in {kind for _, _, kind in events} | {kind for _, _, kind, _ in commands}
    text = "".join(f"{line}\n" for (line,) in lines)
    assert hashlib.sha256(text.encode()).hexdigest() == sha256
