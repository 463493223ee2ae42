"""A process that ran a large run keeps its page beside the journal, and it is the one a dashboard makes."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest

import elastune
from elastune.dashboard.run_data import RunData
from elastune.journal.run_folders import FoundRun, find_run
from elastune.views.page import kept_pages
from elastune.views.page.follower import RunFollower
from elastune.views.page.run_page import page_of
from tests.runs.checked_run import job_of


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FoundRun:
    """With faults, so that gangs are lost and rows repeated."""
    monkeypatch.setattr(kept_pages, "LARGE_EVENTS", 1)
    monkeypatch.setattr(kept_pages, "AT_END_EVENTS", 1)
    campaign = elastune.simulate_many(job_of(deadline="30m"), faults="harsh", folder=tmp_path)
    return find_run(tmp_path, campaign.runs[0].digest.run)


def kept_of(found: FoundRun) -> Path:
    (path,) = found.folder.report.glob("page-*.json")
    return path


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("the journal is replayed")


def test_the_page_kept_at_the_end_is_the_one_a_replay_makes(
    found: FoundRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kept_of(found)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    follower = RunFollower(found)
    replayed = json.loads(json.dumps(page_of(follower, follower.look())))
    assert json.loads(path.read_text())["page"] == replayed
    monkeypatch.setattr(RunFollower, "__init__", refuse)
    opened = RunData(found)
    assert json.loads(json.dumps(opened.figures())) == replayed["figures"]
    assert opened.moment(0.0) == replayed["moment"]
    assert opened.facts() == replayed["facts"]


def test_a_page_that_is_not_ours_is_made_anew(found: FoundRun, tmp_path: Path) -> None:
    path, data = kept_of(found), RunData(found)
    head = data._head()
    good = json.loads(path.read_text())
    for broken in (
        "",
        "[]",
        "{",
        "[" * 5000,
        json.dumps(good | {"page": {}}),
        json.dumps(good | {"format": 1}),
    ):
        path.write_text(broken)
        assert kept_pages.read_kept(found, head) is None
    assert data.moment(0.0)["state"] == good["page"]["moment"]["state"]
    other = tmp_path / "elsewhere.json"
    other.write_text(json.dumps(good))
    path.unlink()
    path.symlink_to(other)
    assert kept_pages._read(path, head) is None


def test_a_run_that_was_moved_says_where_it_is(found: FoundRun, tmp_path: Path) -> None:
    shutil.move(found.folder.path, tmp_path / "moved" / found.folder.path.name)
    facts = RunData(find_run(tmp_path / "moved", found.record.run)).facts()
    assert facts["folder"] == str(tmp_path / "moved" / found.folder.path.name)
    assert "moved" in str(facts["commands"])


def test_a_page_that_cannot_be_written_does_not_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_pages, "AT_END_EVENTS", 1)

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(kept_pages, "_write", fail)
    campaign = elastune.simulate_many(job_of(), folder=tmp_path)
    assert campaign.runs[0].result.ending == "complete"
