"""A large run: read piece by piece, shown meanwhile, and kept for the next dashboard."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from elastune.dashboard.run_data import RunData
from elastune.journal.run_folders import FoundRun, find_run
from elastune.runs.control.requests import AddConfig, StopTrial
from elastune.views.page import follower as following
from elastune.views.page import kept_pages
from elastune.views.page.follower import RunFollower
from elastune.views.page.run_page import moment_json
from tests.dashboard.recorded import Recorded

pytestmark = pytest.mark.xdist_group("dashboard")


@pytest.fixture
def found(recorded: Recorded) -> FoundRun:
    return find_run(recorded.root, recorded.runs["rubberband"])


def kept_files(home: str) -> list[Path]:
    return list((Path(home) / "dashboard-pages").glob("*.json"))


def test_a_journal_is_read_piece_by_piece_and_shows_the_same_in_the_end(
    found: FoundRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_AT_ONCE", 10)
    work_s = 0.0

    def effort() -> float:
        nonlocal work_s
        work_s += 1.0
        return work_s

    at_once, follower = RunFollower(found).look(), RunFollower(found, effort=effort)
    assert at_once.snapshot.best is not None
    moments = [follower.look(0.5)]
    assert moments[0].events == 10
    assert not moments[0].is_whole
    assert moments[0].state is at_once.state
    assert (moments[0].until_s, moments[0].best) == (at_once.until_s, at_once.snapshot.best.metric)
    while not moments[-1].is_whole:
        moments.append(follower.look(0.5))
    assert [moment.total for moment in moments] == [at_once.events] * len(moments)
    assert moment_json(moments[-1]) == moment_json(at_once)


def test_the_page_of_a_large_run_that_is_over_is_kept_and_read_again(
    found: FoundRun, monkeypatch: pytest.MonkeyPatch, elastune_home: str
) -> None:
    monkeypatch.setattr(kept_pages, "LARGE_EVENTS", 1)
    first = RunData(found)
    shown = (first.moment(0.0), first.facts(), first.figures(), first.table(), first.csv())
    (kept,) = kept_files(elastune_home)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600

    def refuse(*_: object) -> None:
        raise AssertionError("the journal is replayed again")

    monkeypatch.setattr(RunFollower, "__init__", refuse)
    again = RunData(found)
    assert (again.moment(0.0), again.facts(), again.figures(), again.table(), again.csv()) == shown
    assert again.importance()["shares"] == {"x": 1.0}


def test_a_page_is_not_that_of_another_state_of_the_journal(
    recorded: Recorded, found: FoundRun, monkeypatch: pytest.MonkeyPatch, elastune_home: str
) -> None:
    monkeypatch.setattr(kept_pages, "LARGE_EVENTS", 1)
    RunData(found).moment(0.0)
    (kept,) = kept_files(elastune_home)
    kept.write_text("half a pag")
    assert RunData(found).moment(0.0)["state"] == "complete"
    with sqlite3.connect(found.journal) as journal:
        (digest,) = journal.execute("SELECT sha256 FROM elastune_runs").fetchone()
        journal.execute("UPDATE elastune_runs SET sha256 = ?", ("0" * 64,))
    try:
        head = RunData(found)._head()
        assert kept_pages.read_kept(found, head) is None
    finally:
        with sqlite3.connect(found.journal) as journal:
            journal.execute("UPDATE elastune_runs SET sha256 = ?", (digest,))
        journal.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_page_of_another_user_is_not_believed(found: FoundRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_pages, "LARGE_EVENTS", 1)
    RunData(found).moment(0.0)
    head = RunData(found)._head()
    (kept,) = kept_files(os.environ["ELASTUNE_HOME"])
    assert kept_pages.read_kept(found, head) is not None
    os.chown(kept, 12345, -1)
    assert kept_pages.read_kept(found, head) is None


def test_it_is_known_before_it_is_sent_what_a_run_refuses(recorded: Recorded) -> None:
    died = RunData(find_run(recorded.root, recorded.runs["died"]))
    assert died.refusal(StopTrial(trial=0, reason="")) is None
    assert "there is no trial 99" in str(died.refusal(StopTrial(trial=99, reason="")))
    assert died.refusal(AddConfig(config={"x": 0.5})) is None
    over = RunData(find_run(recorded.root, recorded.runs["rubberband"]))
    assert "has ended" in str(over.refusal(AddConfig(config={"x": 0.5})))


def test_a_run_that_is_small_or_goes_on_is_not_kept(recorded: Recorded, elastune_home: str) -> None:
    for kind in ("rubberband", "died"):
        RunData(find_run(recorded.root, recorded.runs[kind])).moment(0.0)
    assert kept_files(elastune_home) == []
