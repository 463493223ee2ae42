"""Options, prices, scripts, and what is read from the output of Slurm's commands."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from elastune.errors import JobError
from elastune.job.job import Job
from elastune.providers.registry import billing_rule, is_elsewhere, price_lookup
from elastune.providers.slurm.calls import (
    JobPhase,
    SlurmBusyError,
    SlurmLimitError,
    SlurmRefusedError,
    error_of,
    parse_job,
    parse_time,
    read_comment,
    write_comment,
)
from elastune.providers.slurm.options import SlurmOptions, quote_price
from elastune.providers.slurm.script import NO_FOLDER, NO_SETUP, job_arguments, job_script
from elastune.setup.run_setup import with_price


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partitions": "gpu"}, "is no option of slurm.*did you mean 'partition'"),
        ({"time_limit": "soon"}, "time_limit is 'soon'; expected"),
        ({"time_limit": -1}, "time_limit is -1; expected"),
        ({"exclusive": "perhaps"}, "expected true or false"),
        ({"extra": ["--array=1-3"]}, "expected arguments such as --reservation=tuning, none of --array"),
        ({"extra": ["-N 3"]}, "expected arguments such as"),
        ({"setup": ["module load cuda\nrm -rf x"]}, "a list of shell commands, each on one line"),
        ({"ports": [20000, 20010]}, "at least 50 ports"),
        ({"ports": [80, 999]}, "ports is"),
        ({"price_per_gpu_hour": -1}, "expected dollars such as 0.80"),
        ({"price_per_gpu_hour": 1, "price_per_node_hour": 2}, "exclude each other"),
        ({"partition": [""]}, "partition is ''; expected the name of a partition"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], told: str) -> None:
    with pytest.raises(JobError, match=f"(?s)cluster.options.*{told}"):
        SlurmOptions.parse(options)


@pytest.mark.parametrize(
    ("options", "usd"),
    [
        ({}, 0.0),
        ({"price_per_node_hour": 2.5}, 2.5),
        ({"price_per_gpu_hour": 0.8, "gres": "gpu:4"}, 3.2),
        ({"price_per_gpu_hour": 0.8, "gres": "gpu:a100:2,nvme:1"}, 1.6),
        ({"price_per_gpu_hour": 0.8, "gres": "gpu"}, 0.8),
    ],
)
def test_the_price_is_the_sites(options: dict[str, Any], usd: float) -> None:
    assert quote_price(options).usd_per_hour == pytest.approx(usd)


def test_a_price_per_gpu_needs_the_number_of_gpus() -> None:
    with pytest.raises(JobError, match=r"or cluster.options.gres, such as gpu:4"):
        quote_price({"price_per_gpu_hour": 1.0, "gres": "nvme:2"})


def test_a_price_per_gpu_counts_the_gpus_of_the_slots() -> None:
    cluster = {"provider": "slurm", "slots_per_node": 4, "options": {"price_per_gpu_hour": 0.8}}
    search = {"algorithm": "random", "trials": 2, "max_iterations": 3}
    base = {"cluster": {**cluster, "queue": "1m"}, "search": search, "profile": {"iteration": "1s"}}
    job = with_price(Job.from_dict({**base, "slot": {"gpus": 1, "cpus": 8}}))
    assert job.cluster.price_per_hour == pytest.approx(3.2)
    with pytest.raises(JobError, match=r"expected slots with GPUs, such as slot: \{gpus: 1\}"):
        with_price(Job.from_dict(base))


def test_a_job_gets_the_price_and_says_how_long_it_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without Slurm: a quote needs none
    cluster = {"provider": "slurm", "slots_per_node": 4, "options": {"price_per_node_hour": 2.0}}
    search = {"algorithm": "random", "trials": 2, "max_iterations": 3}
    job = with_price(Job.from_dict({"cluster": cluster, "search": search, "profile": {"iteration": "1s"}}))
    assert (job.cluster.price_per_hour, job.cluster.minimum_charge) == (2.0, 0.0)
    assert job.cluster.price_source == "Slurm, cluster.options of the job"
    assert price_lookup("slurm") is not None
    assert is_elsewhere("slurm")
    assert billing_rule("slurm").shutdown_s > 0.0


def test_arguments_are_what_the_options_say() -> None:
    options = SlurmOptions.parse(
        {"partition": ["a", "b"], "account": "me", "exclusive": True, "notice": "90s", "extra": "--nice=5"}
    )
    assert job_arguments(options, cpus=8, gpus=2) == [
        "--nodes=1", "--ntasks=1", "--no-requeue", "--signal=B:USR1@90", "--partition=a,b", "--account=me",
        "--mem=0", "--gres=gpu:2", "--cpus-per-task=8", "--exclusive", "--nice=5",
    ]  # fmt: skip


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    return subprocess.run(["bash", "-s"], input=script, env=env, capture_output=True, text=True, check=False)


def test_a_script_runs_the_set_up_and_names_the_node(tmp_path: Path) -> None:
    spec = tmp_path / "a folder" / "node.json"
    spec.parent.mkdir()
    spec.touch()
    done = run_script(job_script("echo", str(spec), ["export GREETING=hello", "echo $GREETING"]))
    assert done.stdout.splitlines()[0] == "hello"
    assert f"-m elastune.providers.remote.node {spec} node=7_3 preempted=echo -m" in done.stdout


def test_the_interpreter_of_a_script_may_have_spaces_in_its_path(tmp_path: Path) -> None:
    """Also where the node asks how long it has."""
    python, spec = tmp_path / "my env" / "python", tmp_path / "node.json"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nfor word; do echo $word; done\n", encoding="utf-8")
    python.chmod(0o755)
    spec.touch()
    (asked,) = [
        word.removeprefix("preempted=")
        for word in run_script(job_script(str(python), str(spec))).stdout.splitlines()
        if word.startswith("preempted=")
    ]
    done = subprocess.run(["/bin/sh", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["-m", "elastune.providers.slurm.grace"]


def test_a_script_tells_what_failed(tmp_path: Path) -> None:
    missing = run_script(job_script("echo", str(tmp_path / "node.json")))
    assert missing.returncode == NO_FOLDER
    assert "elastune: failed: " in missing.stdout
    assert "remote.node" not in missing.stdout
    broken = run_script(job_script("echo", "/dev/null", ["module load 'cuda'"]))
    assert broken.returncode == NO_SETUP
    assert "elastune: failed: setup: module load 'cuda'" in broken.stdout


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", SlurmBusyError),
        (
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            SlurmBusyError,
        ),
        (
            "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Job violates accounting/QOS policy",
            SlurmLimitError,
        ),
        ("sbatch: error: Required partition not available (inactive or drain)", SlurmLimitError),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", SlurmRefusedError),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", SlurmRefusedError),
        ("", SlurmRefusedError),
    ],
)
def test_errors_are_read_from_the_text(said: str, kind: type) -> None:
    assert type(error_of("sbatch", said)) is kind


def test_the_limit_that_was_hit_is_named() -> None:
    said = "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: no"
    assert str(error_of("sbatch", said)) == (
        "sbatch: QOSMaxSubmitJobPerUserLimit: Batch job submission failed: no"
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:00", 0.0),
        ("1:02", 62.0),
        ("1:00:00", 3600.0),
        ("2-03:00:01", 183601.0),
        ("UNLIMITED", None),
        ("INVALID", None),
    ],
)
def test_times_are_read(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds


def test_a_comment_keeps_what_it_is_given() -> None:
    tags = {"request": "3", "job": "my job = 50% | done"}
    assert read_comment(write_comment(tags)) == tags
    assert read_comment("something else") == {}
    assert read_comment("") == {}


LINE = "12|3|15|elastune-ab|RUNNING|1:00|{left}|1794999556|1794999560|{end}|None|main|h1|me|{comment}\n"
COMMENT = "elastune request=1 usd=2"


def test_a_line_of_squeue_is_a_job() -> None:
    job = parse_job(LINE.format(left="9:00", end=1795000160, comment=COMMENT))
    assert job is not None
    assert (job.id, job.run, job.phase, job.used_s, job.left_s) == (
        "12_3",
        "ab",
        JobPhase.RUNNING,
        60.0,
        540.0,
    )
    assert (job.number("usd"), job.number("expires"), job.owner) == (2.0, None, "me")
    usual = LINE.format(left="9:00", end=1795000160, comment=COMMENT)
    assert parse_job(usual.replace("elastune-ab", "other")) is None
    assert parse_job(usual.replace(COMMENT, "")) is None
    assert parse_job("garbage") is None


@pytest.mark.parametrize(
    ("left", "end", "left_s"),
    [("9:00", "1794999640", 20.0), ("UNLIMITED", "NONE", None), ("UNLIMITED", "1794999640", 20.0)],
)
def test_a_job_that_is_preempted_has_less_time_left_than_its_limit_says(
    left: str, end: str, left_s: float | None
) -> None:
    """With a grace time Slurm changes only the end of the job."""
    job = parse_job(LINE.format(left=left, end=end, comment=COMMENT))
    assert job is not None
    assert job.left_s == left_s
