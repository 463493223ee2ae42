"""The last word about a run's machines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from elastune.journal.records import RunId
from elastune.journal.run_folders import RunFolder
from elastune.providers.ray_cluster import FinalCheck
from elastune.runs.run_files import read_final_check, write_final_check
from elastune.views.terminal.run import describe_final_check, final_check_words

GONE = FinalCheck(at="2026-11-16T12:03:11+00:00", how="listing of EC2 at 12:03:11 UTC")
HERE = RunFolder(path=Path("elastune-runs/job-20261116T120000Z-3fa2c1"))
THERE = RunFolder(path=Path("mine/job-20261116T120000Z-3fa2c1"))
LEFT = FinalCheck(left=("i-1", "i-2"), at=GONE.at, how=GONE.how)


def test_that_nothing_is_left_is_told_with_who_looked() -> None:
    assert final_check_words(GONE, HERE) == "no nodes left running (listing of EC2 at 12:03:11 UTC)"
    assert not describe_final_check(GONE, HERE).style


def test_what_is_left_is_told_loudly_and_with_what_to_do() -> None:
    words = final_check_words(LEFT, HERE)
    assert words.startswith(
        "2 nodes may be running and cost money: i-1, i-2 (listing of EC2 at 12:03:11 UTC); "
    )
    assert "`elastune nodes --sweep`" in words
    assert "`elastune nodes --sweep --runs-folder mine`" in final_check_words(LEFT, THERE)
    assert describe_final_check(LEFT, HERE).style == "bold red"


def test_it_is_kept_in_the_folder_of_the_run_until_the_run_goes_on(tmp_path: Path) -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    folder = RunFolder.create(tmp_path, name="job", now_utc=now, run=RunId("3fa2c1"))
    assert read_final_check(folder) is None
    for final_check in (LEFT, GONE):
        write_final_check(folder, final_check)
        assert read_final_check(folder) == final_check
    write_final_check(folder, None)
    assert read_final_check(folder) is None
    (folder.report / "farewell.json").write_text("{}")
    assert read_final_check(folder) is None
