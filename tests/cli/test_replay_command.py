"""`elastune replay` where there is nothing to retrace; tests/runtime/real/test_hopping.py has the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elastune.cli.app import app
from elastune.errors import JobError

JOB = """
trainable: synthetic:hypersched
search: {algorithm: sha, trials: 4, min_iterations: 1, max_iterations: 4, eta: 2}
profile: {iteration: 5s}
cluster: {slots_per_node: 1, nodes: 2, price_per_hour: 1.0}
"""


def test_a_simulated_run_cannot_be_retraced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    runner = CliRunner()
    assert runner.invoke(app, ["simulate", "job.yaml"]).exit_code == 0
    failed = runner.invoke(app, ["replay", "last"])
    assert isinstance(failed.exception, JobError)
    assert "is simulated and has no training to replay" in str(failed.exception)
    told = runner.invoke(app, ["replay", "last", "--json"])
    assert json.loads(told.stdout)["error"] == "job"


def test_a_run_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed = CliRunner().invoke(app, ["replay", "last"])
    assert isinstance(failed.exception, JobError)
