"""`elastune status`: a run from its journal alone."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import elastune
from elastune.errors import JobError
from elastune.job.job import load_job, load_recorded_job
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.run_folders import RunFolder
from elastune.journal.store import Journal
from elastune.runs.campaign import Campaign
from tests.cli.commands import ASHA, SMALL
from tests.cli.commands import elastune as run
from tests.cli.test_runs_command import beginning_of
from tests.views.sketching import sketched

__all__ = ["sketched"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return elastune.simulate_many(SMALL, folder=tmp_path_factory.mktemp("runs"), seed=13, faults="harsh")


@pytest.fixture
def campaign(original: Campaign, tmp_path: Path) -> Campaign:
    """Under `elastune-runs`, where each test may do with it as it likes."""
    source = folder_of(original).path
    copy = shutil.copytree(source, tmp_path / "elastune-runs" / source.name)
    return replace(original, folder=RunFolder(path=copy))


def folder_of(campaign: Campaign) -> RunFolder:
    assert campaign.folder is not None
    return campaign.folder


def status(tmp_path: Path, *arguments: str | Path) -> dict[str, Any]:
    done = run("status", *arguments, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def test_a_replay_tells_what_the_simulation_told(campaign: Campaign, tmp_path: Path) -> None:
    data = status(tmp_path, "last")
    result = campaign.results[0].to_dict()
    for key in ("policy", "seed", "predicted", "actual", "best", "trials", "phases", "iterations", "events"):
        assert data[key] == result[key], key
    assert data["state"] == data["ending"] == result["ending"]
    standing = campaign.runs[0].standing
    assert data["remarks"] == standing.to_dict()["remarks"]
    assert len(data["stages"]) == len(standing.stages)
    done = run("status", "last", cwd=tmp_path)
    simulate = ("simulate", SMALL, "--seed", "13", "--faults", "harsh", "--no-journal")
    shown = run(*simulate, cwd=tmp_path).stdout
    assert (
        done.stdout.partition("\n\nbest")[2].partition("\nstarted")[0]
        == (shown.partition("\n\nbest")[2].partition("\nnot kept")[0])
    )


@pytest.mark.parametrize("form", ["id", "start", "folder", "journal", "last"])
def test_a_run_may_be_named_in_many_ways(campaign: Campaign, tmp_path: Path, form: str) -> None:
    folder = folder_of(campaign)
    name = str(campaign.results[0].run)
    names: dict[str, str | Path] = {
        "id": name,
        "start": name[:3],
        "folder": folder.path,
        "journal": folder.journal,
        "last": "last",
    }
    assert status(tmp_path, names[form])["run"] == name


def test_several_runs_show_the_table_of_their_simulation_again(tmp_path: Path) -> None:
    arguments = (SMALL, "--seeds", "2", "--policy", "rubberband,asha", "--faults", "mild")
    shown = run("simulate", *arguments, cwd=tmp_path).stdout
    told = run("status", "last", cwd=tmp_path).stdout
    assert told.partition("\nruns ")[0] == shown.partition("\nruns ")[0]
    first = str(re.search(r"see one +elastune status (\S+)", told)[1])  # type: ignore[index]
    assert status(tmp_path, first)["seed"] == 0
    data = status(tmp_path, first.partition(".")[0])
    assert (data["asked"], data["faults"], data["unfinished"]) == (4, "mild", [])
    again = json.loads(run("simulate", *arguments, "--json", cwd=tmp_path).stdout)
    assert data["summary"] == again["summary"]


def test_without_its_digests_a_campaign_is_replayed(tmp_path: Path) -> None:
    folder = folder_of(elastune.simulate_many(SMALL, folder=tmp_path / "elastune-runs", seeds=2))
    before = run("status", "last", cwd=tmp_path).stdout
    assert before.startswith("small, simulated: 2 seeds (0 to 1)\n")
    for path in folder.report.iterdir():
        path.unlink()
    assert run("status", "last", cwd=tmp_path).stdout == before


def test_an_audit_needs_one_run(tmp_path: Path) -> None:
    campaign = elastune.simulate_many(SMALL, folder=tmp_path / "elastune-runs", seeds=2)
    done = run("status", "last", "--audit", cwd=tmp_path)
    assert done.returncode == 2
    assert f"{campaign.results[0].run} (rubberband, seed 0)" in done.stderr
    assert status(tmp_path, str(campaign.results[1].run), "--audit")["seed"] == 1


def test_runs_of_many_jobs_in_one_journal_are_not_summed_up(tmp_path: Path) -> None:
    for seed in (0, 1):
        elastune.simulate(SMALL, seed=seed, journal=tmp_path / "all.sqlite")
    done = run("status", "all.sqlite", cwd=tmp_path)
    assert done.returncode == 2
    assert "holds several runs" in done.stderr


def test_seed_and_faults_are_shown_and_a_run_can_be_repeated_from_its_folder(tmp_path: Path) -> None:
    first = json.loads(
        run(
            "simulate", SMALL, "--seed", "3", "--faults", "mild,crash=0.2", "--policy", "asha", "--json",
            cwd=tmp_path,
        ).stdout
    )  # fmt: skip
    data = status(tmp_path, "last")
    assert (data["seed"], data["faults"]) == (3, "mild,crash=0.2")
    assert "[seed 3, faults mild,crash=0.2]" in run("status", "last", cwd=tmp_path).stdout
    program, *arguments = shlex.split(data["repeat"])
    assert program == "elastune"
    again = json.loads(run(*arguments, "--json", cwd=tmp_path).stdout)
    assert again["journal_sha256"] == first["journal_sha256"]


def test_a_run_of_many_can_be_repeated_alone(tmp_path: Path) -> None:
    campaign = elastune.simulate_many(
        SMALL, folder=tmp_path / "elastune-runs", seeds=2, policies=["rubberband", "asha"], faults="harsh"
    )
    chosen = campaign.results[3]
    arguments = shlex.split(status(tmp_path, str(chosen.run))["repeat"])[1:]
    again = json.loads(run(*arguments, "--json", cwd=tmp_path).stdout)
    assert again["journal_sha256"] == chosen.journal_sha256


def test_a_simulation_under_way_is_running(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def train(config: dict[str, float], iteration: int) -> float:
        if not seen:
            found = elastune.status("last", folder=tmp_path)
            seen.append((found.state.value, found.standing.events))
        return config["x"]

    job = {
        **load_job(SMALL).to_dict(),
        "trainable": train,
        "metric": "m",
        "space": {"x": {"float": [0, 1]}},
    }
    elastune.simulate_many(job, folder=tmp_path)
    ((state, events),) = seen
    assert state == "running"
    assert events >= 1


def test_a_run_about_to_start_is_not_said_to_have_ended(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    folder = RunFolder.create(tmp_path / "runs", name="early", now_utc=now, run=RunId("00000a"))
    record = RunRecord(
        run=RunId("00000a"), name="early", created_utc=now, body=RuntimeKind.SIMULATED, policy="asha", seed=0
    )
    with Journal.open(folder.journal, durable=False).start(record):
        done = run("status", "last", "--runs-folder", tmp_path / "runs", cwd=tmp_path)
    assert done.returncode == 4
    assert "run 00000a is starting: process" in done.stderr


def test_a_run_recorded_when_may_exceed_was_called_yields_can_be_opened(tmp_path: Path) -> None:
    job = {**load_job(SMALL).to_dict(), "deadline": "2h", "may_exceed": "deadline"}
    folder = folder_of(elastune.simulate_many(job, folder=tmp_path / "elastune-runs"))
    before = status(tmp_path, "last")
    with contextlib.closing(sqlite3.connect(folder.journal)) as connection, connection:
        changed = connection.execute(
            "UPDATE elastune_entries SET event = replace(event, '\"may_exceed\"', '\"yields\"') "
            "WHERE number = 1"
        )
        assert changed.rowcount == 1
        (event,) = connection.execute("SELECT event FROM elastune_entries WHERE number = 1").fetchone()
        assert json.loads(event)["job"]["yields"] == "deadline"
    folder.job.write_text(folder.job.read_text().replace("may_exceed:", "yields:"))
    assert status(tmp_path, "last") == before
    assert elastune.status("last", folder=tmp_path / "elastune-runs").job.may_exceed == "deadline"
    assert run("report", "last", cwd=tmp_path).returncode == 0
    assert load_recorded_job(folder.job) == elastune.Job.from_dict(job)
    folder.job.write_text("")
    with pytest.raises(JobError, match="the job is empty; expected a mapping"):
        load_recorded_job(folder.job)


def test_an_audit_finds_every_command_again(campaign: Campaign, tmp_path: Path) -> None:
    events = campaign.results[0].events
    sha256 = campaign.results[0].journal_sha256
    assert status(tmp_path, "last", "--audit")["audit"] == {
        "agreed": events, "deviation": None, "sha256": {"stored": sha256, "found": sha256},
    }  # fmt: skip
    told = run("status", "last", "--audit", cwd=tmp_path).stdout
    assert f"audit: all {events} events agree with a replay, command by command, and with" in told


def test_an_audit_finds_a_line_that_was_changed_without_its_hash(campaign: Campaign, tmp_path: Path) -> None:
    """A number that no command depends on: the replay agrees, the hash does not."""
    with contextlib.closing(sqlite3.connect(folder_of(campaign).journal)) as connection, connection:
        changed = connection.execute(
            "UPDATE elastune_entries SET event = replace(event, '\"at_s\":', '\"at_s\": ') WHERE number = 5"
        )
        assert changed.rowcount == 1
    done = run("status", "last", "--audit", cwd=tmp_path)
    assert done.returncode == 4
    assert "lines were changed or lost" in " ".join(done.stdout.split())
    data = json.loads(run("status", "last", "--audit", "--json", cwd=tmp_path).stdout)
    assert data["audit"]["deviation"] is None
    assert data["audit"]["sha256"]["stored"] != data["audit"]["sha256"]["found"]
    assert run("status", "last", cwd=tmp_path).returncode == 0


def test_an_audit_shows_the_first_deviation_and_ends_with_4(campaign: Campaign, tmp_path: Path) -> None:
    source = Journal.open(folder_of(campaign).journal, read_only=True)
    (record,) = source.runs()
    forged = Journal.open(tmp_path / "forged.sqlite", durable=False)
    number = 0
    with forged.start(record) as writer:
        for entry in source.read(record.run):
            lines = list(entry.lines)
            for place, line in enumerate(lines):
                if not number and entry.number > 20 and '"until_iteration":3,' in line:
                    lines[place] = line.replace('"until_iteration":3,', '"until_iteration":4,')
                    number = entry.number
            writer.append(entry.number, lines)
    assert number
    done = run("status", "forged.sqlite", "--audit", cwd=tmp_path)
    assert done.returncode == 4
    assert f"audit: {number - 1} events agree; in a replay event {number} causes other" in done.stdout
    assert '"until_iteration":4,' in done.stdout
    as_json = run("status", "forged.sqlite", "--audit", "--json", cwd=tmp_path)
    assert as_json.returncode == 4
    assert json.loads(as_json.stdout)["audit"]["deviation"]["number"] == number
    assert run("status", "forged.sqlite", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("events", [1, 5, 20, 40, 60])
def test_a_run_that_was_cut_off_stands_where_its_journal_ends(
    campaign: Campaign, tmp_path: Path, events: int
) -> None:
    beginning_of(folder_of(campaign), events, tmp_path / "part")
    data = status(tmp_path, "last", "--runs-folder", "part")
    assert (data["state"], data["events"], data["ending"]) == ("interrupted", events, None)
    spent = sum(stage["cost"] for stage in data["stages"])
    assert spent == pytest.approx(data["actual"]["cost"])  # with the minimum charge of young nodes
    for stage in data["stages"]:
        if stage["shares"] is not None:
            assert sum(stage["shares"].values()) == pytest.approx(1.0)
    done = run("status", "last", "--runs-folder", "part", cwd=tmp_path, columns=80)
    assert done.returncode == 0, done.stderr
    assert f"interrupted after {events} event" in done.stdout
    assert re.search(r"time .* left", done.stdout)
    assert "nodes now" in done.stdout


def test_a_run_can_be_looked_at_when_its_code_is_gone(tmp_path: Path) -> None:
    code = tmp_path / "train.py"
    code.write_text("def accuracy(config, k):\n    return config['x'] - 1 / k\n")
    job = tmp_path / "job.yaml"
    job.write_text(
        SMALL.read_text().replace("synthetic:hypersched", "train.py:accuracy")
        + "metric: accuracy\nspace: {x: {float: [0, 1]}}\n"
    )
    campaign = elastune.simulate_many(job, folder=tmp_path / "elastune-runs", policies=["asha"])
    code.unlink()
    job.unlink()
    data = status(tmp_path, "last", "--audit")
    assert data["actual"] == campaign.results[0].to_dict()["actual"]
    assert data["predicted"] == campaign.results[0].to_dict()["predicted"]
    assert data["audit"]["deviation"] is None


@pytest.mark.parametrize("algorithm", ["sha", "asha"])
def test_a_run_can_be_looked_at_when_its_curves_are_gone(tmp_path: Path, algorithm: str) -> None:
    rng = np.random.default_rng(0)
    curves = tmp_path / "curves.npz"
    valid_loss = rng.random((100, 1)) + 1 / np.arange(1, 51)
    np.savez(curves, valid_loss=valid_loss, lr=rng.random(100), seconds=np.full((100, 50), 60.0))
    (tmp_path / "job.yaml").write_text(
        "trainable: curves.npz\nmode: min\n"
        f"search: {{algorithm: {algorithm}, trials: 27, max_iterations: 27}}\n"
        "deadline: 3h\ncluster: {slots_per_node: 4, max_nodes: 8, price_per_hour: 10}\n"
    )
    done = run("simulate", "job.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    curves.unlink()
    data = status(tmp_path, "last", "--audit")
    assert data["metric"] == "valid_loss"
    assert data["best"] == json.loads(done.stdout)["best"]
    assert data["audit"]["deviation"] is None


def test_time_for_which_the_driver_was_down_is_told(tmp_path: Path) -> None:
    faults = "driver_per_hour=60,driver_down_s=90"
    done = run("simulate", SMALL, "--faults", faults, cwd=tmp_path)
    found = re.search(r"driver +down (\d+) times, \S+ in all; the run's clock stood still", done.stdout)
    assert found is not None
    assert "Elastune was down for" in done.stdout
    data = status(tmp_path, "last")
    downs = [each for each in data["remarks"] if each["topic"] == "driver"]
    assert len(downs) == int(found[1]) > 1
    assert data["down_seconds"] > 0
    assert found[0] in run("status", "last", cwd=tmp_path).stdout


def test_a_budget_that_is_left_is_told(tmp_path: Path) -> None:
    campaign = elastune.simulate_many(ASHA, folder=tmp_path / "whole")
    beginning_of(folder_of(campaign), 400, tmp_path / "elastune-runs")
    told = run("status", "last", cwd=tmp_path).stdout
    assert re.search(r"cost +\$\d\.\d\d +\$10\.00  \$\d\.\d\d left", told)


@pytest.mark.parametrize(
    ("name", "said"),
    [("last", "there are no runs"), ("abc", "no run under"), ("nowhere/x.sqlite", "no run under")],
)
def test_a_run_that_is_not_there_is_exit_code_2(tmp_path: Path, name: str, said: str) -> None:
    done = run("status", name, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    data = json.loads(run("status", name, "--json", cwd=tmp_path).stdout)
    assert data["error"] == "job"
