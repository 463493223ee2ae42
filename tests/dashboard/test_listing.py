"""The list of runs: only what has changed is read again, and a large folder piece by piece."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from elastune.dashboard import listing
from elastune.dashboard.listing import RunListing
from elastune.journal.run_folders import find_run
from tests.dashboard.recorded import Recorded

pytestmark = pytest.mark.xdist_group("dashboard")


@pytest.fixture
def root(recorded: Recorded, tmp_path: Path) -> Path:
    """Three runs."""
    for kind in ("asha", "pbt", "died"):
        source = find_run(recorded.root, recorded.runs[kind]).folder.path
        shutil.copytree(source, tmp_path / "runs" / source.name)
    return tmp_path / "runs"


class Clock:
    """Each look takes a second, and between two requests an hour passes."""

    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s

    def wait(self) -> None:
        self.now_s += 3600.0


def ours(answer: dict[str, object], root: Path) -> list[str]:
    runs = answer["runs"]
    assert isinstance(runs, list)
    return [line["run"] for line in runs if str(root) in line["folder"]]


def test_a_folder_that_has_not_changed_is_not_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    runs = RunListing(root, clock)
    monkeypatch.setattr(listing, "_PATIENCE_S", 1e9)
    first = runs.answer("")
    assert len(ours(first, root)) == 3
    clock.wait()
    again = runs.answer(str(first["version"]))
    assert again == {"version": first["version"], "unread": 0}

    def refuse(_: object) -> None:
        raise AssertionError("a folder is read again")

    clock.wait()
    with monkeypatch.context() as patched:
        patched.setattr(listing, "_read_folder", refuse)
        assert ours(runs.answer(""), root) == ours(first, root)
    gone = next(root.iterdir())
    shutil.rmtree(gone)
    clock.wait()
    left = runs.answer(str(first["version"]))
    assert len(ours(left, root)) == 2
    (next(root.iterdir()) / "journal.sqlite").write_bytes(b"no journal any more")
    clock.wait()
    broken = runs.answer(str(left["version"]))
    assert len(ours(broken, root)) == 1
    assert isinstance(broken["broken"], list)
    assert "not a journal" in broken["broken"][0]["reason"]


def test_a_large_folder_is_read_piece_by_piece(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PATIENCE_S", 1.5)
    monkeypatch.setattr(listing, "indexed_folders", list)
    clock = Clock()
    runs = RunListing(root, clock)
    seen, unread = list[int](), list[int]()
    for _ in range(4):
        clock.wait()
        answer = runs.answer("")
        seen.append(len(ours(answer, root)))
        assert isinstance(answer["unread"], int)
        unread.append(answer["unread"])
    assert seen[0] < 3
    assert seen[-1] == 3
    assert [left + count for left, count in zip(seen, unread, strict=True)] == [3] * 4
