"""`elastune plan` as a person and as a program would use it, now and then in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elastune.cli.plan import ObjectiveName
from elastune.model.limits import Objective
from elastune.model.quantities import PlannerName
from elastune.planning.planners.registry import PLANNERS
from tests.cli.commands import Done
from tests.cli.commands import elastune as run_here
from tests.waiting import PATIENCE_S

EXAMPLE = Path(__file__).parents[2] / "examples" / "resnet101.yaml"
QUICK = ("--samples", "40")
"""Where it does not matter how sure the plan is."""


def elastune(*arguments: str | Path, cwd: Path = EXAMPLE.parent) -> Done:
    return run_here(*arguments, cwd=cwd, columns=80)


def elastune_process(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elastune", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=PATIENCE_S, check=False)


def edited(tmp_path: Path, **replacements: str) -> Path:
    text = EXAMPLE.read_text(encoding="utf-8")
    for key, line in replacements.items():
        text, count = re.subn(rf"(?m)^(\s*){key}:.*$", rf"\g<1>{line}", text)
        assert count == 1
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_example_prints_its_stages_and_says_mean_or_quantile() -> None:
    done = elastune("plan", EXAMPLE)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Cheapest plan by a deadline of 20m00s, 95% sure")
    assert lines[1] == "RubberBand, because sha was declared with a deadline: least cost by then"
    assert [line.split() for line in lines[4:8]] == [
        ["1", "32", "1", "2", "64", "16", "1m32s", "$4.17"],
        ["2", "10", "3", "2", "20", "5", "2m55s", "$2.98"],
        ["3", "3", "9", "4", "12", "3", "4m27s", "$2.73"],
        ["4", "1", "37", "8", "8", "2", "9m45s", "$3.97"],
    ]
    assert "mean 18m39s, 95% quantile 19m30s (deadline 20m00s)" in done.stdout
    assert "this plan saves 38%" in done.stdout


def test_everything_at_once_as_json() -> None:
    done = elastune("plan", EXAMPLE, "--json", "--compare", "--frontier", "--seed", "3", *QUICK)
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    assert data["planner"] == "exact"
    assert data["seed"] == 3
    assert data["comparison"]["exact"]["cost"] <= data["comparison"]["greedy"]["cost"]
    assert data["comparison"]["greedy"]["cost"] <= data["comparison"]["static"]["cost"]
    times = [point["jct_seconds"] for point in data["frontier"]]
    assert times == sorted(times)


def test_the_same_seed_prints_the_same_and_another_seed_another() -> None:
    first = elastune("plan", EXAMPLE, "--json", "--seed", "5", *QUICK).stdout
    assert elastune_process("plan", EXAMPLE, "--json", "--seed", "5", *QUICK).stdout == first
    assert elastune("plan", EXAMPLE, "--json", "--seed", "6", *QUICK).stdout != first


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_can_be_chosen(planner: str) -> None:
    done = elastune("plan", EXAMPLE, "--planner", planner, "--json", *QUICK)
    assert json.loads(done.stdout)["planner"] == planner


def test_the_names_in_help_are_the_real_ones() -> None:
    assert [name.value for name in PlannerName] == list(PLANNERS)
    assert [name.value for name in ObjectiveName] == [objective.value for objective in Objective]


def test_the_objective_can_be_turned_round() -> None:
    done = elastune("plan", EXAMPLE, "--objective", "time", *QUICK)
    assert done.stdout.startswith("Fastest plan by a deadline of 20m00s")


def test_a_frontier_is_shown_with_the_chosen_point() -> None:
    done = elastune("plan", EXAMPLE, "--frontier", "--compare")
    assert "plans that no other beats in both" in done.stdout.replace("\n", " ").replace("  ", " ")
    assert re.search(r"18m39s\s+\$13\.85\s+16\s+chosen", done.stdout)
    assert "naive-elastic" in done.stdout


def test_a_wrong_job_is_exit_code_2_and_one_clear_message(tmp_path: Path) -> None:
    job = edited(tmp_path, deadline="deadlne: 20m")
    done = elastune_process("plan", job)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"error: {job}, line 3: deadlne is not a key of a job; did you mean 'deadline'?\n"


def test_a_wrong_job_is_json_for_programs(tmp_path: Path) -> None:
    done = elastune("plan", edited(tmp_path, deadline="deadline: soon"), "--json")
    assert done.returncode == 2
    data = json.loads(done.stdout)
    assert data["error"] == "job"
    assert "deadline is 'soon'" in data["message"]


def test_an_infeasible_job_is_exit_code_3_and_says_what_would_fit(tmp_path: Path) -> None:
    job = edited(tmp_path, deadline="deadline: 5m")
    done = elastune("plan", job, *QUICK)
    assert done.returncode == 3
    assert "The deadline binds" in done.stderr
    assert "Traceback" not in done.stderr
    data = json.loads(elastune("plan", job, "--json", *QUICK).stdout)
    assert data["error"] == "infeasible"
    assert data["binding"] == "deadline"
    assert data["fastest"]["jct_seconds"] > 300
    assert data["cheapest"]["cost"] < data["fastest"]["cost"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan"], "Missing argument"),
        (["plan", "nowhere.yaml"], "error: nowhere.yaml: there is no such file"),
        (["plan", EXAMPLE, "--planner", "magic"], "Invalid value for '--planner'"),
        (["plan", EXAMPLE, "--samples", "0"], "error: samples is 0"),
        (["plan", EXAMPLE, "--seed", "-1"], "error: seed is -1"),
        (
            ["plan", EXAMPLE, "--plot", "plan.gif"],
            "error: --plot is 'plan.gif'; expected a file that ends in",
        ),
        (["plan", EXAMPLE, "--plot", "no/such/folder/plan.png"], "does not exist"),
        (["plot"], "No such command 'plot'"),
    ],
)
def test_wrong_arguments_are_exit_code_2_without_a_traceback(
    arguments: list[str | Path], said: str, tmp_path: Path
) -> None:
    done = elastune(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype")]
)
def test_a_plot_is_written(tmp_path: Path, ending: str, magic: bytes) -> None:
    target = tmp_path / f"plan.{ending}"
    done = elastune("plan", EXAMPLE, "--plot", target, *QUICK)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes().startswith(magic)
    assert f"plot written to {target.name}" in done.stdout.replace("\n", "").replace(f"{tmp_path}/", "")


def test_a_job_may_come_with_measurements(tmp_path: Path) -> None:
    measured = {"1": [60.2, 59.1, 61.0], "2": [31.9, 32.4], "4": [16.8, 16.5]}
    (tmp_path / "speeds.json").write_text(json.dumps(measured), encoding="utf-8")
    (tmp_path / "job.yaml").write_text(
        "search: {algorithm: hyperband, max_iterations: 27}\n"
        "budget: $25\n"
        "profile: speeds.json\n"
        "cluster: {slots_per_node: 4, price_per_hour: $12.24, max_nodes: 16}\n",
        encoding="utf-8",
    )
    done = elastune("plan", tmp_path / "job.yaml", "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["objective"] == "time"
    assert data["cost_quantile"] <= 25
    assert {stage["bracket"] for stage in data["stages"]} == {f"bracket {s}" for s in range(4)}


def test_version_and_help() -> None:
    assert re.fullmatch(r"elastune \d+\.\d+\.\d+\n", elastune("--version").stdout)
    assert "plan" in elastune("--help").stdout
    assert "--frontier" in elastune("plan", "--help").stdout
