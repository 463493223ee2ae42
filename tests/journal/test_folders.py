"""Folders of runs and their names."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.errors import InvariantError, JobError
from elastune.journal.records import RunId
from elastune.journal.run_folders import RunFolder, run_folders, slug
from tests.journal.examples import NOON, RUN


def test_a_folder_has_a_place_for_everything(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", name="ResNet 101", now_utc=NOON, run=RUN)
    assert folder.path == tmp_path / "runs" / "ResNet-101-20261116T120000Z-3fa2c1"
    assert sorted(path.name for path in folder.path.iterdir()) == ["checkpoints", "logs", "report"]
    files = (folder.job, folder.profile, folder.plan, folder.journal)
    assert [path.name for path in files] == ["job.yaml", "profile.json", "plan.json", "journal.sqlite"]
    assert (folder.run, folder.created_utc) == (RUN, NOON.replace(microsecond=0))


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, name="a", now_utc=NOON, run=RUN)
    with pytest.raises(JobError, match=r"a-20261116T120000Z-3fa2c1 cannot be created: .* exists"):
        RunFolder.create(tmp_path, name="a", now_utc=NOON, run=RUN)


def test_a_file_is_no_root_for_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JobError, match="cannot be created: "):
        RunFolder.create(tmp_path / "file", name="a", now_utc=NOON, run=RUN)


@pytest.mark.parametrize("run", ["", "3fa2c", "3FA2C1", "3fa2c1.1", "../../"])
def test_an_id_is_six_hexadecimal_digits(tmp_path: Path, run: str) -> None:
    with pytest.raises(InvariantError, match="expected six digits"):
        RunFolder.create(tmp_path, name="a", now_utc=NOON, run=RunId(run))


@pytest.mark.parametrize("tz", [None, timezone(timedelta(hours=2))])
def test_the_time_is_in_utc(tmp_path: Path, tz: timezone | None) -> None:
    with pytest.raises(InvariantError, match="expected one in UTC"):
        RunFolder.create(tmp_path, name="a", now_utc=datetime(2026, 11, 16, tzinfo=tz), run=RUN)


def test_folders_are_listed_newest_first_and_nothing_else_is(tmp_path: Path) -> None:
    made = [
        RunFolder.create(tmp_path, name=name, now_utc=NOON + timedelta(days=day), run=RUN)
        for name, day in (("z", 0), ("a", 2), ("m-n", 1))
    ]
    (tmp_path / "notes").mkdir()
    (tmp_path / "x-99999999T999999Z-3fa2c1").mkdir()
    (tmp_path / "y-20261116T120000Z-3fa2c1").touch()
    assert run_folders(tmp_path) == [made[1], made[2], made[0]]
    assert run_folders(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet101", "resnet101"),
        ("../../etc/passwd", "etc-passwd"),
        ("..", "run"),
        ("", "run"),
        ("-rf", "rf"),
        (".hidden", "hidden"),
        ("a\x00b\nc\\d", "a-b-c-d"),
        ("größer 木 हिन्दी", "größer-木-हिन्दी"),
        ("ﬁne", "fine"),
    ],
)
def test_a_slug_keeps_letters_of_any_script_and_nothing_dangerous(name: str, expected: str) -> None:
    assert slug(name) == expected


@given(st.text())
def test_any_name_makes_a_safe_folder_name(name: str) -> None:
    made = slug(name)
    assert made == slug(made)
    assert 1 <= len(made.encode()) <= 100
    assert Path(made).name == made
    assert made[0] not in "-."
    assert RunFolder(path=Path(f"{made}-20261116T120000Z-3fa2c1")).run == RUN
