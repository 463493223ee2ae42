"""`elastune status`: a run from its journal alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import elastune
from elastune.journal import Journal, RunFolder
from elastune.runs.campaign import Campaign
from tests.cli.commands import ASHA, SYNTHETIC
from tests.cli.commands import elastune as run
from tests.cli.test_runs_command import beginning_of


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return elastune.simulate_many(SYNTHETIC, folder=tmp_path / "elastune-runs", seed=2, faults="harsh")


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
    shown = run(
        "simulate", SYNTHETIC, "--seed", "2", "--faults", "harsh", "--no-journal", cwd=tmp_path
    ).stdout
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


def test_one_of_several_runs_has_to_be_named(tmp_path: Path) -> None:
    campaign = elastune.simulate_many(SYNTHETIC, folder=tmp_path / "elastune-runs", seeds=2)
    done = run("status", "last", cwd=tmp_path)
    assert done.returncode == 2
    assert f"{campaign.results[0].run} (rubberband, seed 0)" in done.stderr
    assert status(tmp_path, str(campaign.results[1].run))["seed"] == 1


def test_an_audit_finds_every_command_again(campaign: Campaign, tmp_path: Path) -> None:
    events = campaign.results[0].events
    assert status(tmp_path, "last", "--audit")["audit"] == {"agreed": events, "deviation": None}
    told = run("status", "last", "--audit", cwd=tmp_path).stdout
    assert f"audit: all {events} events agree with a replay, command by command" in told


def test_an_audit_shows_the_first_deviation_and_ends_with_4(campaign: Campaign, tmp_path: Path) -> None:
    source = Journal.open(folder_of(campaign).journal, read_only=True)
    (record,) = source.runs()
    forged = Journal.open(tmp_path / "forged.sqlite", durable=False)
    number = 0
    with forged.start(record) as writer:
        for entry in source.read(record.run):
            lines = list(entry.lines)
            for place, line in enumerate(lines):
                if not number and entry.number > 20 and '"until_iteration":10,' in line:
                    lines[place] = line.replace('"until_iteration":10,', '"until_iteration":11,')
                    number = entry.number
            writer.append(entry.number, lines)
    assert number
    done = run("status", "forged.sqlite", "--audit", cwd=tmp_path)
    assert done.returncode == 4
    assert f"audit: {number - 1} events agree; in a replay event {number} causes other" in done.stdout
    assert '"until_iteration":11,' in done.stdout
    as_json = run("status", "forged.sqlite", "--audit", "--json", cwd=tmp_path)
    assert as_json.returncode == 4
    assert json.loads(as_json.stdout)["audit"]["deviation"]["number"] == number
    assert run("status", "forged.sqlite", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("events", [1, 2, 5, 60, 150, 300, 396])
def test_a_run_that_was_cut_off_stands_where_its_journal_ends(
    campaign: Campaign, tmp_path: Path, events: int
) -> None:
    beginning_of(folder_of(campaign), events, tmp_path / "part")
    data = status(tmp_path, "last", "--runs-folder", "part")
    assert (data["state"], data["events"], data["ending"]) == ("interrupted", events, None)
    spent = sum(stage["cost"] for stage in data["stages"])
    young = events < 60  # then the minimum charge is yet to be booked
    assert spent <= data["actual"]["cost"] if young else spent == pytest.approx(data["actual"]["cost"])
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
        SYNTHETIC.read_text().replace("synthetic:hypersched", "train.py:accuracy")
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


def test_a_budget_that_is_left_is_told(tmp_path: Path) -> None:
    campaign = elastune.simulate_many(ASHA, folder=tmp_path / "whole")
    beginning_of(folder_of(campaign), 400, tmp_path / "elastune-runs")
    told = run("status", "last", cwd=tmp_path).stdout
    assert re.search(r"cost +\$\d\.\d\d +\$10\.00  \$\d\.\d\d left", told)


@pytest.mark.parametrize(
    ("name", "said"),
    [("last", "there is no run"), ("abc", "no run under"), ("nowhere/x.sqlite", "no run under")],
)
def test_a_run_that_is_not_there_is_exit_code_2(tmp_path: Path, name: str, said: str) -> None:
    done = run("status", name, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    data = json.loads(run("status", name, "--json", cwd=tmp_path).stdout)
    assert data["error"] == "job"
