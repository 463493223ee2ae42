"""The index of a user's runs, and commands that lead to a run from any folder."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.journal.records import RunId
from elastune.journal.run_commands import command_for
from elastune.journal.run_folders import RunFolder, find_run, indexed_folders
from elastune.journal.run_index import add_to_index, indexed_paths
from elastune.journal.store import Journal
from elastune.user_home import user_home
from tests.journal.examples import NOON, record
from tests.journal.test_finding import make


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def indexed(root: Path, run: str, *, later_s: float = 0, name: str = "job") -> RunFolder:
    folder = make(root, run, later_s=later_s)
    renamed = RunFolder(path=folder.path.with_name(folder.path.name.replace("job-", f"{name}-", 1)))
    folder.path.rename(renamed.path)
    assert add_to_index(renamed.path)
    return renamed


@pytest.mark.parametrize("text", ["ab12cd", "ab1", "last", "digits"])
def test_a_run_in_the_index_is_found_from_anywhere(tmp_path: Path, elsewhere: Path, text: str) -> None:
    folder = indexed(tmp_path / "project" / "elastune-runs", "ab12cd", name="digits")
    found = find_run(Path("elastune-runs"), text)
    assert (found.folder.path, found.record.run) == (folder.path, "ab12cd")


def test_the_folder_of_runs_goes_before_the_index(tmp_path: Path, elsewhere: Path) -> None:
    indexed(tmp_path / "project", "ab12cd", later_s=60)
    here = make(elsewhere / "elastune-runs", "ab9999")
    for text in ("ab", "last", "job"):
        assert find_run(Path("elastune-runs"), text).folder.run == here.run


def test_the_last_run_of_a_named_folder_is_not_a_run_elsewhere(tmp_path: Path, elsewhere: Path) -> None:
    indexed(tmp_path / "project", "ab12cd")
    with pytest.raises(JobError, match="there are no runs under mine"):
        find_run(Path("mine"), "last")


def test_a_name_means_its_newest_run(tmp_path: Path) -> None:
    indexed(tmp_path, "aaaaaa", name="digits")
    indexed(tmp_path, "bbbbbb", name="digits", later_s=5)
    indexed(tmp_path, "cccccc", name="other", later_s=9)
    assert find_run(tmp_path, "digits").record.run == "bbbbbb"


def test_a_name_that_is_the_start_of_another_id_is_refused(tmp_path: Path) -> None:
    indexed(tmp_path, "cafe11", name="other")
    indexed(tmp_path, "bbbbbb", name="cafe")
    with pytest.raises(JobError, match=r"'cafe' is the start of the id cafe11 .* give an id: bbbbbb"):
        find_run(tmp_path, "cafe")
    assert find_run(tmp_path, "cafe11").record.run == "cafe11"


def test_a_folder_with_the_name_of_a_run_does_not_hide_it(tmp_path: Path, elsewhere: Path) -> None:
    indexed(tmp_path / "runs", "ab12cd", name="digits")
    (elsewhere / "digits").mkdir()
    assert find_run(Path("elastune-runs"), "digits").record.run == "ab12cd"


def test_a_measurement_is_not_the_last_run_unless_there_is_no_other(tmp_path: Path) -> None:
    later = RunFolder.create(tmp_path, name="job", now_utc=NOON, run=RunId("bbbbbb"))
    Journal.open(later.journal, durable=False).start(record("bbbbbb", policy="profile")).close()
    assert find_run(tmp_path, "last").record.run == "bbbbbb"
    make(tmp_path, "aaaaaa", later_s=-60)
    assert find_run(tmp_path, "last").record.run == find_run(tmp_path, "job").record.run == "aaaaaa"


def test_folders_that_are_gone_leave_the_index(tmp_path: Path, elastune_home: str) -> None:
    kept = indexed(tmp_path / "runs", "aaaaaa")
    gone = indexed(tmp_path / "runs", "bbbbbb")
    shutil.rmtree(gone.path)
    assert [folder.path for folder in indexed_folders()] == [kept.path]
    assert len(list(Path(elastune_home).rglob("*.json"))) == 1


def test_folders_on_a_disk_that_is_away_come_back(tmp_path: Path) -> None:
    folder = indexed(tmp_path / "disk" / "project" / "runs", "aaaaaa")
    (tmp_path / "disk").rename(tmp_path / "unmounted")
    assert indexed_paths() == []
    (tmp_path / "unmounted").rename(tmp_path / "disk")
    assert indexed_paths() == [folder.path]


def test_folders_on_another_machine_that_shares_the_home_stay_in_the_index(
    tmp_path: Path, elastune_home: str
) -> None:
    folder = indexed(tmp_path / "runs", "aaaaaa")
    (entry,) = Path(elastune_home).rglob("*.json")
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "host": "another"}))
    shutil.rmtree(folder.path)
    assert indexed_paths() == []
    assert entry.exists()


def test_a_home_that_cannot_be_written_is_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ELASTUNE_HOME", str(tmp_path / "file"))
    folder = make(tmp_path / "runs", "aaaaaa")
    assert not add_to_index(folder.path)
    assert indexed_paths() == []
    assert find_run(tmp_path / "runs", "last").record.run == "aaaaaa"


def test_the_home_follows_the_rules_of_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_home() == Path(os.environ["ELASTUNE_HOME"])
    monkeypatch.delenv("ELASTUNE_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert user_home() == tmp_path / "elastune"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_home() == tmp_path / ".local" / "share" / "elastune"


def test_many_processes_write_the_index_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from elastune.journal.run_index import *\n"
        "for n in range(50):\n"
        "    folder = Path(sys.argv[1]) / f'job-20260101T000000Z-{n:06x}'\n"
        "    folder.mkdir(parents=True, exist_ok=True); assert add_to_index(folder); indexed_paths()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "runs")]
    for process in [subprocess.Popen(command) for _ in range(3)]:
        assert process.wait() == 0
    assert len(indexed_paths()) == 50


@pytest.mark.parametrize("place", ["elastune-runs", "other/runs", "../project/runs", "with space/runs"])
@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_command_works_when_it_is_pasted(elsewhere: Path, place: str, is_indexed: bool) -> None:
    folder = make(elsewhere / place, "ab12cd")
    if is_indexed:
        add_to_index(folder.path)
    command = command_for("resume", folder, "ab12cd", "--yes")
    words = shlex.split(command)
    root = words[words.index("--runs-folder") + 1] if "--runs-folder" in words else "elastune-runs"
    assert ("--runs-folder" in words) == (place != "elastune-runs" and not is_indexed)
    assert (words[:2], words[-1]) == (["elastune", "resume"], "--yes")
    assert find_run(Path(root), words[2]).folder.path.resolve() == folder.path.resolve()


def test_a_command_names_the_folder_when_another_run_has_the_same_id(tmp_path: Path, elsewhere: Path) -> None:
    make(elsewhere / "elastune-runs", "ab12cd")
    other = indexed(tmp_path / "other", "ab12cd")
    assert command_for("status", other, "ab12cd") == f"elastune status ab12cd --runs-folder {tmp_path}/other"


def test_a_command_for_a_renamed_folder_has_its_path(elsewhere: Path) -> None:
    folder = make(elsewhere / "runs", "ab12cd")
    folder.path.rename(elsewhere / "kept")
    assert command_for("status", RunFolder(path=elsewhere / "kept"), "ab12cd") == "elastune status kept"
