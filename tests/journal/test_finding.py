"""What a person types, and the run it means."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.journal.records import RunId
from elastune.journal.run_folders import RunFolder, find_run, list_runs
from elastune.journal.store import Journal
from tests.journal.examples import NOON, record


def make(root: Path, run: str, *, later_s: float = 0, parts: int = 0) -> RunFolder:
    """A folder with one run, or with `parts` of them."""
    now = NOON + timedelta(seconds=later_s)
    folder = RunFolder.create(root, name="job", now_utc=now, run=RunId(run))
    journal = Journal.open(folder.journal, durable=False)
    for part in range(1, parts + 1):
        journal.start(record(f"{run}.{part}", seed=part, later_s=later_s)).close()
    if not parts:
        journal.start(record(run, later_s=later_s)).close()
    return folder


def test_a_run_is_found_by_the_start_of_its_id(tmp_path: Path) -> None:
    make(tmp_path, "ab12cd")
    other = make(tmp_path, "ab99ff")
    for text in ("ab9", "ab99ff"):
        found = find_run(tmp_path, text)
        assert (found.folder, found.record.run, found.journal) == (other, "ab99ff", other.journal)


def test_a_run_is_found_by_any_path_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "runs", "ab12cd")
    renamed = tmp_path / "best"
    folder.path.rename(renamed)
    monkeypatch.chdir(tmp_path)
    for text in (str(renamed), "best", "./best", "best/journal.sqlite"):
        assert find_run(Path("runs"), text).record.run == "ab12cd"


def test_the_name_of_a_folder_is_enough(tmp_path: Path) -> None:
    folder = make(tmp_path, "ab12cd")
    assert find_run(tmp_path, folder.path.name).folder == folder


def test_a_journal_may_have_any_name(tmp_path: Path) -> None:
    folder = make(tmp_path / "runs", "ab12cd")
    copy = tmp_path / "sent-by-mail.db"
    folder.journal.rename(copy)
    found = find_run(tmp_path / "runs", str(copy))
    assert (found.journal, found.record.run) == (copy, "ab12cd")


def test_an_id_goes_before_a_path_that_looks_like_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "runs", "ab12cd")
    (tmp_path / "ab").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_run(Path("runs"), "ab").folder.path == Path("runs") / folder.path.name


def test_a_start_that_fits_several_ids_lists_them(tmp_path: Path) -> None:
    for digit in range(8):
        make(tmp_path, f"ab{digit}000", later_s=digit)
    for digit in range(4):
        make(tmp_path, f"ab{digit}fff", later_s=digit)
    with pytest.raises(
        JobError, match=r"'ab' is the start of 12 ids; add digits: ab7000 .*, and 2 more"
    ) as caught:
        find_run(tmp_path, "ab")
    assert str(caught.value).count("(job-") == 10


@pytest.mark.parametrize("text", ["ff", "no/such/folder", "", "ab12cd0", "latest"])
def test_what_fits_nothing_tells_what_there_is(tmp_path: Path, text: str) -> None:
    make(tmp_path, "ab12cd")
    with pytest.raises(JobError, match=rf"matches '{text}'; expected .*, or last; there are: ab12cd \(job-"):
        find_run(tmp_path, text)


def test_the_last_run_is_the_newest_even_within_a_second(tmp_path: Path) -> None:
    make(tmp_path, "ffffff", later_s=-60)
    make(tmp_path, "000000", later_s=0.5)
    make(tmp_path, "aaaaaa", later_s=0.1)
    assert find_run(tmp_path, "last").record.run == "000000"


def test_a_broken_last_run_is_not_passed_over(tmp_path: Path) -> None:
    make(tmp_path, "ffffff")
    RunFolder.create(tmp_path, name="job", now_utc=NOON + timedelta(hours=1), run=RunId("000000"))
    with pytest.raises(JobError, match=r"the last run, .*000000, cannot be read: there is no journal at"):
        find_run(tmp_path, "last")


def test_there_is_no_last_run_before_the_first(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"there are no runs under"):
        find_run(tmp_path / "nowhere", "last")


@pytest.mark.parametrize("text", ["ab12cd", "ab", "last"])
def test_a_folder_with_several_runs_asks_which(tmp_path: Path, text: str) -> None:
    make(tmp_path, "ab12cd", parts=12)
    with pytest.raises(
        JobError, match=r"holds several runs; name one of: ab12cd\.1 \(asha, seed 1\), .*, and 2 more"
    ):
        find_run(tmp_path, text)


def test_one_of_several_runs_is_named_by_its_number(tmp_path: Path) -> None:
    make(tmp_path, "ab12cd", parts=12)
    assert find_run(tmp_path, "ab12cd.2").record.run == "ab12cd.2"
    assert find_run(tmp_path, "ab.12").record.seed == 12
    with pytest.raises(JobError, match=r"holds no run \.13; name one of: "):
        find_run(tmp_path, "ab12cd.13")


def test_a_folder_with_one_run_of_several_possible_needs_no_number(tmp_path: Path) -> None:
    make(tmp_path, "ab12cd", parts=1)
    assert find_run(tmp_path, "ab12cd").record.run == "ab12cd.1"


def test_a_list_is_newest_first_and_tells_what_is_broken(tmp_path: Path) -> None:
    make(tmp_path, "aaaaaa")
    make(tmp_path, "bbbbbb", later_s=5, parts=2)
    no_journal = RunFolder.create(tmp_path, name="x", now_utc=NOON, run=RunId("cccccc"))
    no_run = RunFolder.create(tmp_path, name="y", now_utc=NOON, run=RunId("dddddd"))
    Journal.open(no_run.journal)
    torn = make(tmp_path, "eeeeee")
    torn.journal.write_bytes(torn.journal.read_bytes()[:5_000])
    listing = list_runs(tmp_path)
    assert [found.record.run for found in listing.runs] == ["bbbbbb.1", "bbbbbb.2", "aaaaaa"]
    reasons = {broken.folder.run: broken.reason for broken in listing.broken}
    assert set(reasons) == {no_journal.run, no_run.run, torn.run}
    assert "there is no journal" in reasons[RunId("cccccc")]
    assert "holds no run" in reasons[RunId("dddddd")]
    assert "is damaged" in reasons[RunId("eeeeee")]


def test_a_list_of_nothing_is_empty(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "nowhere").runs == ()
