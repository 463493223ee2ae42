"""`elastune runs`: what was run, cheaply."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.run_folders import RunFolder
from elastune.journal.store import Journal
from tests.cli.commands import ASHA, SMALL
from tests.cli.commands import elastune as run


def listed(root: Path) -> dict[str, Any]:
    done = run("runs", "--runs-folder", root, "--json", cwd=root.parent)
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def only_run(root: Path) -> dict[str, Any]:
    (found,) = listed(root)["runs"]
    assert isinstance(found, dict)
    return found


def beginning_of(folder: RunFolder, events: int, into: Path) -> Journal:
    """A run as it would be after a crash: its first events and no more."""
    source = Journal.open(folder.journal, read_only=True)
    (record,) = source.runs()
    made = RunFolder.create(into, name=record.name, now_utc=record.created_utc, run=record.run)
    journal = Journal.open(made.journal, durable=False)
    with journal.start(record) as writer:
        for entry in source.read(record.run):
            if entry.number <= events:
                writer.append(entry.number, entry.lines)
    return journal


def test_no_runs_yet_is_no_error(tmp_path: Path) -> None:
    done = run("runs", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "no runs in elastune-runs yet; `elastune simulate job.yaml` makes one\n"
    assert listed(tmp_path / "elastune-runs") == {"runs": [], "broken": []}


def test_runs_are_listed_newest_first_with_what_came_of_them(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    first = elastune.simulate_many(SMALL, folder=root).results[0]
    second = elastune.simulate_many(ASHA, folder=root, seed=3).results[0]
    newest, oldest = listed(root)["runs"]
    assert (newest["run"], newest["policy"], newest["seed"]) == (second.run, "asha", 3)
    assert (newest["state"], oldest["state"]) == ("deadline", "complete")
    assert oldest["seconds"] == first.actual.jct_seconds
    assert oldest["cost"] == first.actual.cost
    assert first.best is not None
    assert oldest["best"] == first.best.metric
    assert oldest["events"] == first.events
    told = run("runs", "--runs-folder", root, cwd=tmp_path, columns=80).stdout.splitlines()
    assert [line.split()[0] for line in told] == ["run", second.run, first.run]
    assert max(map(len, told)) <= 80
    wide = run("runs", "--runs-folder", root, cwd=tmp_path, columns=120).stdout
    assert re.search(rf"{first.run} +small +now +simulated +rubberband +0 +complete +{first.events} ", wide)


def test_runs_that_were_started_together_share_a_line(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    elastune.simulate_many(SMALL, folder=root, seeds=3, policies=["rubberband", "asha"])
    told = run("runs", "--runs-folder", root, cwd=tmp_path, columns=80).stdout.splitlines()
    assert re.match(r"[0-9a-f]{6}\.1-6 +small +now +2 policies +0-2 ", told[1])
    assert "--each" in "".join(told)
    apart = run("runs", "--runs-folder", root, "--each", cwd=tmp_path).stdout.splitlines()
    assert len(apart) == 7
    assert len(listed(root)["runs"]) == 6


@pytest.mark.parametrize("events", [1, 40])
def test_a_run_that_did_not_end_is_interrupted_or_running(tmp_path: Path, events: int) -> None:
    campaign = elastune.simulate_many(SMALL, folder=tmp_path / "whole")
    assert campaign.folder is not None
    journal = beginning_of(campaign.folder, events, tmp_path / "part")
    found = only_run(tmp_path / "part")
    assert (found["state"], found["events"]) == ("interrupted", events)
    assert found["cost"] is found["best"] is None
    with journal.resume(RunId(found["run"])):
        assert only_run(tmp_path / "part")["state"] == "running"


def test_news_after_the_end_does_not_hide_it(tmp_path: Path) -> None:
    campaign = elastune.simulate_many(SMALL, folder=tmp_path / "runs")
    assert campaign.folder is not None
    before = only_run(tmp_path / "runs")
    journal = Journal.open(campaign.folder.journal, durable=False)
    with journal.resume(RunId(before["run"])) as writer:
        for _ in range(100):
            late = {"at_s": 5000.0, "node": "n-9", "billed_s": 1.0, "type": "NodeFound"}
            writer.append(writer.next_number, [json.dumps(late, sort_keys=True, separators=(",", ":"))])
    after = only_run(tmp_path / "runs")
    assert (after["state"], after["best"], after["seconds"]) == (
        "complete",
        before["best"],
        before["seconds"],
    )
    assert after["cost"] is None  # the lines are not those of which the cost was told


def test_a_folder_that_cannot_be_read_is_listed_with_its_reason(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    elastune.simulate_many(SMALL, folder=root)
    now = datetime(2026, 1, 2, tzinfo=UTC)
    RunFolder.create(root, name="empty", now_utc=now, run=RunId("000001"))
    spoiled = RunFolder.create(root, name="spoiled", now_utc=now, run=RunId("000002"))
    spoiled.journal.write_text("no database")
    none = RunFolder.create(root, name="none", now_utc=now, run=RunId("000003"))
    Journal.open(none.journal, durable=False)
    data = listed(root)
    assert len(data["runs"]) == 1
    assert {Path(each["folder"]).name.partition("-")[0] for each in data["broken"]} == {
        "empty", "none", "spoiled",
    }  # fmt: skip
    told = run("runs", "--runs-folder", root, cwd=tmp_path)
    assert told.returncode == 0
    assert "3 folders cannot be read" in told.stdout
    assert "journal.sqlite is not a journal" in " ".join(told.stdout.split())


def test_a_run_without_events_is_listed(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    folder = RunFolder.create(tmp_path / "runs", name="early", now_utc=now, run=RunId("00000a"))
    record = RunRecord(
        run=RunId("00000a"), name="early", created_utc=now, body=RuntimeKind.SIMULATED, policy="asha", seed=0
    )
    Journal.open(folder.journal, durable=False).start(record).close()
    assert only_run(tmp_path / "runs")["state"] == "interrupted"
    done = run("status", "last", "--runs-folder", tmp_path / "runs", cwd=tmp_path)
    assert done.returncode == 4
    assert "has no events" in done.stderr


def test_faults_are_listed_where_there_are_any(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    elastune.simulate_many(SMALL, folder=root)
    assert "faults" not in run("runs", "--runs-folder", root, cwd=tmp_path).stdout
    elastune.simulate_many(SMALL, folder=root, seed=2, faults="harsh")
    assert [line["faults"] for line in listed(root)["runs"]] == ["harsh", "none"]
    for columns in (80, 100, 140):
        told = run("runs", "--runs-folder", root, cwd=tmp_path, columns=columns).stdout.splitlines()
        assert re.search(r"rubberband +2 +harsh +complete", told[1])
        assert max(map(len, told)) <= columns


def test_a_file_in_place_of_the_folder_of_runs_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "afile").write_text("")
    done = run("runs", "--runs-folder", "afile", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "error: afile is a file; expected the folder in which runs are kept, such as elastune-runs\n"
    )


def test_the_runs_of_all_folders_are_listed_from_anywhere(tmp_path: Path) -> None:
    first = elastune.simulate_many(SMALL, folder=tmp_path / "one" / "runs").results[0]
    second = elastune.simulate_many(ASHA, folder=tmp_path / "two" / "runs").results[0]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run("runs", "--all", cwd=elsewhere, columns=200)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["run", second.run, first.run]
    assert f"{tmp_path}/one/runs" in done.stdout
    told = run("runs", cwd=elsewhere)
    assert "no runs in elastune-runs yet" in told.stdout
    assert "`elastune runs --all` lists your runs in other folders" in told.stdout
    assert run("status", "asha", cwd=elsewhere).stdout.startswith(f"{second.run} asha")


def test_runs_that_only_measure_are_listed_on_request(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    for run_id, policy in (("00000a", "asha"), ("00000b", "profile")):
        folder = RunFolder.create(tmp_path / "runs", name="job", now_utc=now, run=RunId(run_id))
        record = RunRecord(
            run=RunId(run_id), name="job", created_utc=now, body=RuntimeKind.RAY, policy=policy, seed=0
        )
        Journal.open(folder.journal, durable=False).start(record).close()
    assert only_run(tmp_path / "runs")["run"] == "00000a"
    told = run("runs", "--runs-folder", tmp_path / "runs", cwd=tmp_path).stdout
    assert "1 profile run not shown; --profiles shows them" in told
    every = run("runs", "--runs-folder", tmp_path / "runs", "--profiles", "--json", cwd=tmp_path)
    assert {each["run"] for each in json.loads(every.stdout)["runs"]} == {"00000a", "00000b"}


def test_a_command_whose_output_is_closed_does_its_work(tmp_path: Path) -> None:
    """Also where the journal would be the file with the number of stdout."""
    command = f"{sys.executable} -m elastune simulate {SMALL} >&-"
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert only_run(tmp_path / "elastune-runs")["state"] == "complete"
