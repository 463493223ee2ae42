"""`elastune simulate` as a person and as a program would use it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.api.running import RUNS_FOLDER
from elastune.cli.folders import DEFAULT_FOLDER
from elastune.job import load_job
from elastune.journal import Journal, RunFolder, RunId
from tests.cli.commands import ASHA, EXAMPLES, SYNTHETIC
from tests.cli.commands import elastune as run

KEYS = {
    "policy", "seed", "predicted", "actual", "best", "trials", "events", "journal_sha256",
}  # fmt: skip


def simulated(tmp_path: Path, *arguments: str | Path) -> dict[str, Any]:
    done = run("simulate", *arguments, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def the_folder(root: Path) -> RunFolder:
    (path,) = root.iterdir()
    return RunFolder(path=path)


def test_a_run_is_told_from_the_policy_to_where_it_is_kept(tmp_path: Path) -> None:
    done = run("simulate", SYNTHETIC, cwd=tmp_path, columns=80)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = done.stdout
    assert told.startswith("synthetic, simulated: complete  [seed 0]\n")
    assert "policy rubberband, because a search was declared (sha)" in told
    assert re.search(r"time +18m19s +18m51s +18m\d\ds +[+-]\d\.\d% +20m00s +kept", told)
    assert re.search(r"cost +\$6\.24 +\$6\.38 +\$6\.\d\d +[+-]\d\.\d% +none", told)
    assert "after 1,000 iterations: trial" in told
    assert "63 stopped, 1 finished" in told
    assert re.search(r"(?m)^    5 +\d +\dm\d\ds   5m33s   \$1\.\d\d   \$1\.13 ", told)
    assert re.search(r"look again +elastune status [0-9a-f]{6}\b", told)
    assert max(map(len, told.splitlines())) <= 80


def test_json_has_the_keys_that_programs_rely_on_and_is_the_result(tmp_path: Path) -> None:
    data = simulated(tmp_path, SYNTHETIC, "--seed", "4")
    assert data.keys() >= KEYS
    assert data["predicted"].keys() == data["actual"].keys() == {"jct_seconds", "cost"}
    assert data["best"].keys() == {"trial", "config", "metric", "iterations"}
    assert data["seed"] == 4
    assert data["trials"] == 64
    own = elastune.simulate(SYNTHETIC, seed=4).to_dict()
    assert {**data, "run": None} == {**own, "run": None}


def test_the_same_seed_gives_the_same_journal_and_another_seed_another(tmp_path: Path) -> None:
    first, again, other = (
        simulated(tmp_path, SYNTHETIC, "--faults", "harsh", "--seed", seed) for seed in ("1", "1", "2")
    )
    assert first["journal_sha256"] == again["journal_sha256"] != other["journal_sha256"]


def test_every_run_has_a_folder_with_job_plan_journal_and_result(tmp_path: Path) -> None:
    data = simulated(tmp_path, SYNTHETIC)
    folder = the_folder(tmp_path / "elastune-runs")
    assert folder.run == data["run"]
    assert folder.path.name.startswith("synthetic-")
    assert load_job(folder.job).to_dict() == load_job(SYNTHETIC).to_dict()
    assert json.loads(folder.plan.read_text())["jct_seconds"] == data["predicted"]["jct_seconds"]
    assert json.loads((folder.report / "result.json").read_text()) == data
    summary = Journal.open(folder.journal, read_only=True).summary(RunId(data["run"]))
    assert (summary.head.sha256, summary.head.events) == (data["journal_sha256"], data["events"])


def test_the_job_in_the_folder_can_be_run_again_from_anywhere(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / "train.py").write_text("def accuracy(config, k):\n    return config['x'] - 1 / k\n")
    job = SYNTHETIC.read_text().replace("synthetic:hypersched", "train.py:accuracy")
    (home / "job.yaml").write_text(job + "metric: accuracy\nspace: {x: {float: [0, 1]}}\n")
    first = simulated(home, "job.yaml")
    again = simulated(elsewhere, the_folder(home / "elastune-runs").job)
    assert again["best"] == first["best"]
    assert again["actual"] == first["actual"]


def test_the_folder_for_runs_can_be_chosen_by_option_and_by_environment(tmp_path: Path) -> None:
    run("simulate", SYNTHETIC, "--runs-folder", "here", cwd=tmp_path)
    run("simulate", SYNTHETIC, cwd=tmp_path, ELASTUNE_RUNS="there")
    assert len(list((tmp_path / "here").iterdir())) == len(list((tmp_path / "there").iterdir())) == 1
    assert not (tmp_path / "elastune-runs").exists()
    assert Path(RUNS_FOLDER) == DEFAULT_FOLDER


def test_without_a_journal_nothing_is_written_and_as_much_is_told(tmp_path: Path) -> None:
    arguments = ("simulate", SYNTHETIC, "--faults", "harsh", "--seed", "2")
    told = run(*arguments, "--no-journal", cwd=tmp_path).stdout
    assert not list(tmp_path.iterdir())
    assert "5  " in told
    assert "an injected fault" in told
    assert "replan" in told
    kept = run(*arguments, cwd=tmp_path).stdout
    assert kept.partition("\nrun ")[0] == told.partition("\nnot kept")[0]


def test_an_asynchronous_search_has_no_plan_and_a_prediction_all_the_same(tmp_path: Path) -> None:
    told = run("simulate", ASHA, cwd=tmp_path).stdout
    assert told.startswith("asha, simulated: stopped at the deadline  [seed 0]\n")
    assert "policy asha, because search.algorithm names it" in told
    assert re.search(r"time +20m00s +(20m00s|19m\d\ds) +[+-]0\.\d% +20m00s +kept", told)
    assert not the_folder(tmp_path / "elastune-runs").plan.exists()


def test_failures_are_counted_by_what_they_have_in_common(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "def accuracy(config, k):\n"
        "    if config['x'] < 0.3:\n"
        "        raise ValueError(f'out of memory at {config[\"x\"]}')\n"
        "    return float('nan') if config['x'] < 0.4 else config['x'] - 1 / k\n"
    )
    job = SYNTHETIC.read_text().replace("synthetic:hypersched", "train.py:accuracy")
    (tmp_path / "job.yaml").write_text(job + "metric: accuracy\nspace: {x: {float: [0, 1]}}\n")
    told = run("simulate", "job.yaml", cwd=tmp_path).stdout
    rows = re.findall(r"(?m)^ +(\d+) +\d+  (ValueError: out of memory at 0|accuracy is nan)", told)
    assert len(rows) == 2
    failed = sum(int(count) for count, _ in rows)
    assert f"Failed: {failed} trials" in told
    assert f"{failed} failed" in told


def test_several_seeds_are_summed_up_beside_the_prediction(tmp_path: Path) -> None:
    data = simulated(tmp_path, SYNTHETIC, "--seeds", "4", "--seed", "10")
    assert [each["seed"] for each in data["runs"]] == [10, 11, 12, 13]
    (summary,) = data["summary"]
    times = [each["actual"]["jct_seconds"] for each in data["runs"]]
    assert summary["jct_seconds"]["mean"] == pytest.approx(sum(times) / 4)
    assert (summary["jct_seconds"]["min"], summary["jct_seconds"]["max"]) == (min(times), max(times))
    assert summary["kept_deadline"] == 1.0
    assert summary["kept_budget"] is None
    assert summary["predicted_quantile"]["jct_seconds"] > summary["predicted"]["jct_seconds"]
    alone = simulated(tmp_path, SYNTHETIC, "--seed", "12")
    assert alone["journal_sha256"] == data["runs"][2]["journal_sha256"]


def test_policies_are_compared_on_the_same_seeds(tmp_path: Path) -> None:
    done = run(
        "simulate", SYNTHETIC, "--seeds", "3", "--policy", "rubberband, asha", cwd=tmp_path, columns=80
    )
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.startswith("synthetic, simulated: 3 seeds (0 to 2)\n")
    assert re.search(r"(?m)^rubberband *\n  time +18m19s +18m51s ", done.stdout)
    assert re.search(r"(?m)^asha *\n  time ", done.stdout)
    assert re.search(r"best model +(rubberband|asha) on \d seed", done.stdout)
    folder = the_folder(tmp_path / "elastune-runs")
    records = Journal.open(folder.journal, read_only=True).runs()
    assert [record.run.rpartition(".")[2] for record in records] == list("123456")
    assert [(record.policy, record.seed) for record in records[:3]] == [
        ("rubberband", 0), ("asha", 0), ("rubberband", 1),
    ]  # fmt: skip


def test_an_infeasible_job_is_told_as_by_plan(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(SYNTHETIC.read_text().replace("deadline: 20m", "deadline: 2m"))
    done, planned = run("simulate", job, cwd=tmp_path), run("plan", job, cwd=tmp_path)
    assert done.returncode == planned.returncode == 3
    assert done.stderr == planned.stderr
    data = json.loads(run("simulate", job, "--json", cwd=tmp_path).stdout)
    assert data["error"] == "infeasible"
    assert data["would_fit"]
    assert not (tmp_path / "elastune-runs").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.yaml"], "error: nowhere.yaml: there is no such file"),
        ([SYNTHETIC, "--seeds", "0"], "error: seeds is 0; expected a whole number from 1"),
        ([SYNTHETIC, "--seed", "-1"], "error: seed is -1"),
        ([SYNTHETIC, "--policy", "magic"], "error: policy is 'magic'; expected one of: asha, rubberband"),
        ([SYNTHETIC, "--policy", "asha,"], "error: --policy is 'asha,'; expected a name"),
        ([SYNTHETIC, "--policy", "asha,asha"], "error: policy 'asha' is named twice"),
        ([SYNTHETIC, "--faults", "hash"], "did you mean harsh"),
        ([SYNTHETIC, "--faults", "crash=2"], "error: faults: crash is 2.0, expected a probability"),
        ([EXAMPLES / "resnet101.yaml"], "error: simulate needs `trainable`: "),
        ([SYNTHETIC, "--runs-folder", "/proc/none"], "cannot be made"),
    ],
)
def test_wrong_arguments_are_exit_code_2_and_leave_nothing_behind(
    arguments: list[str | Path], said: str, tmp_path: Path
) -> None:
    done = run("simulate", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
    as_json = run("simulate", *arguments, "--json", cwd=tmp_path)
    assert as_json.returncode == 2
    assert json.loads(as_json.stdout)["error"] == "job"


def test_a_search_that_another_policy_would_never_end_is_refused(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    text = re.sub(r"(?m)^(deadline|search):.*\n", "", SYNTHETIC.read_text())
    job.write_text(text + "search: {algorithm: hyperband, max_iterations: 81}\n")
    done = run("simulate", job, "--policy", "asha", cwd=tmp_path)
    assert done.returncode == 2
    assert "with the policy asha nothing ends this search" in done.stderr


def test_help_loads_no_heavy_library() -> None:
    heavy = {"numpy", "scipy", "pydantic", "sqlalchemy", "optuna", "matplotlib"}
    code = f"import sys, elastune.cli.app; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_planning_alone_loads_no_database() -> None:
    code = "import sys, elastune; elastune.plan; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
