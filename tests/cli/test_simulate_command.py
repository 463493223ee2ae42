"""`elastune simulate` as a person and as a program would use it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.api.simulating import RUNS_FOLDER
from elastune.cli.terminal import DEFAULT_FOLDER
from elastune.job.job import load_job
from elastune.journal.records import RunId
from elastune.journal.run_folders import RunFolder
from elastune.journal.store import Journal
from tests.cli.commands import ASHA, EXAMPLES, SMALL, SYNTHETIC, Done
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
    assert "policy RubberBand, because sha was declared with a deadline: least cost by then" in told
    assert re.search(r"time +18m10s +19m56s +18m\d\ds +[+-]\d\.\d% +20m00s +kept", told)
    assert re.search(r"cost +\$6\.20 +\$6\.71 +\$6\.\d\d +[+-]\d\.\d% +none", told)
    assert "after 1,000 iterations: trial" in told
    assert "63 stopped, 1 finished" in told
    assert re.search(r"(?m)^    5 +\d +\dm\d\ds   5m31s   \$1\.\d\d   \$1\.13 ", told)
    assert re.search(r"look again +elastune status [0-9a-f]{6}\b", told)
    assert max(map(len, told.splitlines())) <= 80


def test_json_has_the_keys_that_programs_rely_on_and_is_the_result(tmp_path: Path) -> None:
    data = simulated(tmp_path, SMALL, "--seed", "4")
    assert data.keys() >= KEYS
    assert data["predicted"].keys() == data["actual"].keys() == {"jct_seconds", "cost"}
    assert data["best"].keys() == {"trial", "config", "metric", "iterations"}
    assert data["seed"] == 4
    assert data["trials"] == 9
    own = elastune.simulate(SMALL, seed=4).to_dict()
    assert {**data, "run": None} == {**own, "run": None}


def test_the_same_seed_gives_the_same_journal_and_another_seed_another(tmp_path: Path) -> None:
    first, again, other = (
        simulated(tmp_path, SMALL, "--faults", "harsh", "--seed", seed) for seed in ("1", "1", "2")
    )
    assert first["journal_sha256"] == again["journal_sha256"] != other["journal_sha256"]


def test_every_run_has_a_folder_with_job_plan_journal_and_result(tmp_path: Path) -> None:
    data = simulated(tmp_path, SMALL)
    folder = the_folder(tmp_path / "elastune-runs")
    assert folder.run == data["run"]
    assert folder.path.name.startswith("small-")
    assert load_job(folder.job).to_dict() == load_job(SMALL).to_dict()
    expected = json.loads(folder.plan.read_text())["replanned"]
    assert expected["jct_seconds"] == data["predicted"]["jct_seconds"]
    assert json.loads((folder.report / "result.json").read_text()) == data
    summary = Journal.open(folder.journal, read_only=True).summary(RunId(data["run"]))
    assert (summary.head.sha256, summary.head.events) == (data["journal_sha256"], data["events"])


def test_the_job_in_the_folder_can_be_run_again_from_anywhere(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / "train.py").write_text("def accuracy(config, k):\n    return config['x'] - 1 / k\n")
    job = SMALL.read_text().replace("synthetic:hypersched", "train.py:accuracy")
    (home / "job.yaml").write_text(job + "metric: accuracy\nspace: {x: {float: [0, 1]}}\n")
    first = simulated(home, "job.yaml")
    again = simulated(elsewhere, the_folder(home / "elastune-runs").job)
    assert again["best"] == first["best"]
    assert again["actual"] == first["actual"]


def test_the_folder_for_runs_can_be_chosen_by_option_and_by_environment(tmp_path: Path) -> None:
    run("simulate", SMALL, "--runs-folder", "here", cwd=tmp_path)
    run("simulate", SMALL, cwd=tmp_path, ELASTUNE_RUNS="there")
    assert len(list((tmp_path / "here").iterdir())) == len(list((tmp_path / "there").iterdir())) == 1
    assert not (tmp_path / "elastune-runs").exists()
    assert Path(RUNS_FOLDER) == DEFAULT_FOLDER


def test_without_a_journal_nothing_is_written_and_as_much_is_told(tmp_path: Path) -> None:
    arguments = ("simulate", SMALL, "--faults", "harsh", "--seed", "13")
    told = run(*arguments, "--no-journal", cwd=tmp_path).stdout
    assert not list(tmp_path.iterdir())
    assert "3  " in told
    assert "an injected fault" in told
    assert "replan" in told
    kept = run(*arguments, cwd=tmp_path).stdout
    assert kept.partition("\nrun ")[0] == told.partition("\nnot kept")[0]


def test_an_asynchronous_search_has_no_plan_and_a_prediction_all_the_same(tmp_path: Path) -> None:
    told = run("simulate", ASHA, cwd=tmp_path).stdout
    assert told.startswith("asha, simulated: stopped at the deadline  [seed 0]\n")
    assert "policy ASHA, because search.algorithm names it" in told
    assert re.search(r"time +20m00s +(20m00s|19m\d\ds) +[+-]0\.\d% +20m00s +kept", told)
    assert not the_folder(tmp_path / "elastune-runs").plan.exists()


def test_failures_are_counted_by_what_they_have_in_common(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "def accuracy(config, k):\n"
        "    if config['x'] < 0.3:\n"
        "        raise ValueError(f'out of memory at {config[\"x\"]}')\n"
        "    return float('nan') if config['x'] < 0.4 else config['x'] - 1 / k\n"
    )
    job = (
        SMALL.read_text()
        .replace("trials: 9", "trials: 27")
        .replace("synthetic:hypersched", "train.py:accuracy")
    )
    (tmp_path / "job.yaml").write_text(job + "metric: accuracy\nspace: {x: {float: [0, 1]}}\n")
    told = run("simulate", "job.yaml", cwd=tmp_path).stdout
    rows = re.findall(r"(?m)^ +(\d+) +\d+  (ValueError: out of memory at 0|accuracy is nan)", told)
    assert len(rows) == 2
    failed = sum(int(count) for count, _ in rows)
    assert f"Failed: {failed} trials" in told
    assert f"{failed} failed" in told


def test_several_seeds_are_summed_up_beside_the_prediction(tmp_path: Path) -> None:
    data = simulated(tmp_path, SMALL, "--seeds", "4", "--seed", "10")
    assert [each["seed"] for each in data["runs"]] == [10, 11, 12, 13]
    (summary,) = data["summary"]
    times = [each["actual"]["jct_seconds"] for each in data["runs"]]
    assert summary["jct_seconds"]["mean"] == pytest.approx(sum(times) / 4)
    assert (summary["jct_seconds"]["min"], summary["jct_seconds"]["max"]) == (min(times), max(times))
    assert summary["kept_deadline"] == 1.0
    assert summary["kept_budget"] is None
    assert summary["predicted_quantile"]["jct_seconds"] > summary["predicted"]["jct_seconds"]
    alone = simulated(tmp_path, SMALL, "--seed", "12")
    assert alone["journal_sha256"] == data["runs"][2]["journal_sha256"]


def test_policies_are_compared_on_the_same_seeds(tmp_path: Path) -> None:
    done = run(
        "simulate", SYNTHETIC, "--seeds", "3", "--policy", "rubberband, asha", cwd=tmp_path, columns=80
    )
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.startswith("synthetic, simulated: 3 seeds (0 to 2)\n")
    assert re.search(r"(?m)^rubberband *\n  time +18m10s +19m56s ", done.stdout)
    assert re.search(r"(?m)^asha *\n  time ", done.stdout)
    assert re.search(r"best model +(rubberband|asha) on \d seed", done.stdout)
    folder = the_folder(tmp_path / "elastune-runs")
    records = Journal.open(folder.journal, read_only=True).runs()
    assert [record.run.rpartition(".")[2] for record in records] == list("123456")
    assert [(record.policy, record.seed) for record in records[:3]] == [
        ("rubberband", 0), ("asha", 0), ("rubberband", 1),
    ]  # fmt: skip


def job_with(tmp_path: Path, body: str) -> Path:
    """With a function of its own, and enough trials for some to fail."""
    (tmp_path / "train.py").write_text(f"def accuracy(config, k):\n    {body}\n")
    text = SMALL.read_text().replace("synthetic:hypersched", "train.py:accuracy")
    text = text.replace("trials: 9", "trials: 27")
    job = tmp_path / "job.yaml"
    job.write_text(text + "metric: accuracy\nspace: {x: {float: [0, 1]}}\n")
    return job


@pytest.mark.parametrize("policy", ["rubberband", "asha"])
def test_many_failures_are_a_warning_and_nothing_but_failures_is_exit_code_4(
    tmp_path: Path, policy: str
) -> None:
    some = job_with(tmp_path, "return config['x'] if config['x'] > 0.5 else 1 / 0")
    done = run("simulate", some, "--policy", policy, cwd=tmp_path)
    assert done.returncode == 0
    assert re.search(
        r"warning +\d+ of \d+ trials failed: the best model is the best of the others", done.stdout
    )
    done = run("simulate", job_with(tmp_path, "return 1 / 0"), "--policy", policy, cwd=tmp_path)
    assert done.returncode == 4
    assert "failed: the first 5 trials all failed alike: ZeroDivisionError" in done.stdout
    few = job_with(tmp_path, "return config['x'] if config['x'] > 0.05 else 1 / 0")
    assert "warning" not in run("simulate", few, "--policy", policy, cwd=tmp_path).stdout


def test_the_table_of_failures_is_not_cut_and_keeps_type_and_message(tmp_path: Path) -> None:
    message = "the shape of the weights is not what the checkpoint of this layer says, " * 2
    body = f"raise ValueError('{message}end\\n  of line one\\nand more')"
    told = run("simulate", job_with(tmp_path, body), cwd=tmp_path, columns=80).stdout
    assert f"ValueError: {message}end" in " ".join(told.split())
    assert "…" not in told
    assert "and more" not in told


def test_a_narrow_terminal_cuts_no_numbers(tmp_path: Path) -> None:
    for command, widths in (
        (["simulate", SMALL, "--seed", "13", "--faults", "harsh"], (80, 20)),
        (["status", "last"], (80, 20, 40, 79)),
        (["runs"], (80, 20, 40, 79)),
    ):
        usual, *narrow = (run(*command, cwd=tmp_path, columns=width).stdout for width in widths)
        assert not any("…" in each for each in narrow)
        assert {len(each.splitlines()) for each in narrow} == {len(usual.splitlines())}


ONE_AFTER_THE_OTHER = """
import sys
from elastune.cli import main
for command in sys.argv[1:]:
    sys.argv = ["elastune", *command.split()]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    print(f"\\n<end {code or 0}>", flush=True)
"""


def test_a_terminal_without_unicode_gets_plain_characters(tmp_path: Path) -> None:
    (tmp_path / "größe.yaml").write_text(SMALL.read_text())
    elastune.simulate_many(tmp_path / "größe.yaml", folder=tmp_path / "elastune-runs", seed=2, faults="harsh")
    commands = ["simulate größe.yaml", "status last", "runs", "plan größe.yaml"]
    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER, *commands],
        capture_output=True, cwd=tmp_path, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert b"Traceback" not in done.stderr
    told = done.stdout.split(b"\n<end 0>\n")[:-1]
    assert [b"###" in each for each in told] == [True, True, False, False], done.stdout


def test_more_trials_than_there_are_configurations_are_refused_before_the_run(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    text = SYNTHETIC.read_text().replace("trials: 64,", "trials: 64, sampler: grid,")
    job.write_text(text + "space: {b0_rank: {float: [0, 1], grid: 5}, b1: 0.5, b2: 0.5}\n")
    done = run("simulate", job, cwd=tmp_path)
    assert done.returncode == 2
    assert "the search starts 64 trials, but the grid has only 5 configurations" in done.stderr
    assert not (tmp_path / "elastune-runs").exists()
    done = run("simulate", job, "--policy", "asha", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "64 trials were requested, but there are only 5 configurations" in " ".join(done.stdout.split())


def test_what_is_no_job_is_said() -> None:
    for wrong in (None, 3, ["job.yaml"]):
        with pytest.raises(elastune.JobError, match="expected a Job, a mapping with its keys, or a job file"):
            elastune.simulate(wrong)  # type: ignore[arg-type]
    with pytest.raises(elastune.JobError, match="faults is 3; expected text such as mild"):
        elastune.simulate(SYNTHETIC, faults=3)  # type: ignore[arg-type]


STOPPED_AFTER = """
import signal
import time
calls = 0
def accuracy(config, k):
    global calls
    calls += 1
    if calls == {calls}:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.3)  # a run looks up less often than that
    return config['x'] - 1 / k
"""


def interrupted(tmp_path: Path, calls: int, *arguments: str) -> Done:
    (tmp_path / "train.py").write_text(STOPPED_AFTER.format(calls=calls))
    job = SMALL.read_text().replace("synthetic:hypersched", "train.py:accuracy")
    (tmp_path / "job.yaml").write_text(job + "metric: accuracy\nspace: {x: {float: [0, 1]}}\n")
    return run("simulate", "job.yaml", *arguments, cwd=tmp_path)


def test_ctrl_c_in_one_run_says_what_is_kept(tmp_path: Path) -> None:
    done = interrupted(tmp_path, 40)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert re.match(r"interrupted +after \d+m\d\ds of virtual time, \d+ events *\n", done.stdout)
    found = re.search(r"look again +elastune status (\S+)", done.stdout)
    assert found is not None
    told = run("status", found[1], cwd=tmp_path)
    assert told.returncode == 0
    assert "interrupted after" in told.stdout


def test_ctrl_c_in_a_campaign_shows_the_table_of_what_is_complete(tmp_path: Path) -> None:
    done = interrupted(tmp_path, 250, "--seeds", "20")
    assert done.returncode == 130
    assert re.match(r"job, simulated: \d seeds \(0 to \d\), \d of 20 runs\n", done.stdout)
    assert re.search(r"\n  best +0\.", done.stdout)
    assert re.search(r"interrupted  \d of 20 runs are complete", done.stdout)
    told = run("status", "last", cwd=tmp_path).stdout
    assert told.partition("\n\nNot complete")[0] == done.stdout.partition("\n\ninterrupted")[0]
    assert re.search(r"[0-9a-f]{6}\.\d +rubberband +\d +interrupted", told)


def test_ctrl_c_is_told_to_programs(tmp_path: Path) -> None:
    done = interrupted(tmp_path, 250, "--seeds", "20", "--json", "--no-journal")
    assert done.returncode == 130
    data = json.loads(done.stdout)
    assert data["error"] == "interrupted"
    assert len(data["runs"]) == data["summary"][0]["runs"] > 0
    assert data["under_way"]["events"] > 0


def test_an_infeasible_job_is_told_as_by_plan(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(SMALL.read_text().replace("deadline: 30m", "deadline: 2m"))
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
        ([SYNTHETIC, "--policy", "magic"], "error: policy is 'magic'; expected one of: asha, "),
        ([SYNTHETIC, "--policy", "asha,"], "error: --policy is 'asha,'; expected a name"),
        ([SYNTHETIC, "--policy", "asha,asha"], "error: policy 'asha' is named twice"),
        ([SYNTHETIC, "--faults", "hash"], "did you mean harsh"),
        ([SYNTHETIC, "--faults", "mild,harsh"], "error: --faults has 'harsh'; expected"),
        ([SYNTHETIC, "--faults", "crash=2"], "error: faults: crash is 2.0, expected a probability"),
        ([EXAMPLES / "resnet101.yaml"], "error: simulate needs `trainable`: "),
        ([SYNTHETIC, "--runs-folder", "/proc/none"], "cannot be created"),
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
