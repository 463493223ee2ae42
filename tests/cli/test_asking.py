"""Nobody's money is spent without a yes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from elastune.cli.app import app
from tests.providers.ec2.price_server import without_aws

TRAINABLE = """
def train(config, worker, state):
    while True:
        yield {"score": config["x"]}, lambda: {}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_aws(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINABLE)
    data = {
        "trainable": "train.py:train",
        "metric": "score",
        "mode": "max",
        "space": {"x": {"float": [0.0, 1.0]}},
        "search": {"algorithm": "sha", "trials": 4, "max_iterations": 4},
        "budget": 20,
        "storage": "s3://bucket/prefix",
        "cluster": {
            "provider": "ec2",
            "slots_per_node": 4,
            "max_nodes": 2,
            "options": {"instance_type": "p3.8xlarge", "image": "ami-1", "region": "us-east-1"},
        },
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


@pytest.mark.parametrize("command", ["run", "profile"])
def test_measuring_on_rented_machines_is_asked_for(job: Path, command: str) -> None:
    done = CliRunner().invoke(app, [command, str(job), "--no-check"])
    assert done.exit_code != 0
    # Two nodes at $12.24 for five minutes, and the minute in which they end by themselves.
    assert "measuring takes up to 5m00s and at most $2.45" in done.output
    assert "measuring spends money, and there is no terminal to confirm on; pass --yes" in str(done.exception)
    assert not list(job.parent.glob("elastune-runs/*"))


def test_a_run_on_rented_machines_is_asked_for(job: Path) -> None:
    measured = {**yaml.safe_load(job.read_text()), "profile": {"iteration": 10}}
    job.write_text(yaml.safe_dump(measured))
    done = CliRunner().invoke(app, ["run", str(job), "--no-check"])
    assert done.exit_code != 0
    assert "EC2 on demand, us-east-1, built-in list" in " ".join(done.output.split())
    assert "this run spends money, and there is no terminal to confirm on" in str(done.exception)


def test_a_plan_without_a_profile_or_a_terminal_says_how_to_measure(job: Path) -> None:
    done = CliRunner().invoke(app, ["plan", str(job)])
    assert done.exit_code != 0
    told = str(done.exception)
    assert "the job has no profile, and no measurement of this training was found" in told
    assert f"`elastune plan {job} --yes` measures it first, for up to 5m00s" in told
    assert f"`elastune profile {job}`" in told
    assert not list(job.parent.glob("elastune-runs/*"))


def test_a_plan_asks_at_a_terminal_before_it_measures(job: Path) -> None:
    free = yaml.safe_load(job.read_text())
    free["cluster"] = {"slots_per_node": 1, "max_nodes": 1, "price_per_hour": 1}
    job.write_text(yaml.safe_dump(free))
    keyboard, terminal = os.openpty()
    try:
        os.write(keyboard, b"n\n")
        command = [sys.executable, "-m", "elastune", "plan", str(job)]
        done = subprocess.run(command, stdin=terminal, capture_output=True, text=True, check=False)
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert done.returncode == 1
    assert "The job has no profile. Measure it now, for up to 5m00s? [y/N]:" in done.stderr
    assert not list(job.parent.glob("elastune-runs/*"))
