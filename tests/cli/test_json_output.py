"""With `--json` nothing but JSON gets to standard output, whatever prints."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from elastune.cli.terminal import json_output, print_json
from elastune.errors import JobError
from tests.waiting import PATIENCE_S

NOISY = """
import os
import subprocess

print("printed at import")
os.write(1, b"written by native code\\n")
subprocess.run(["echo", "said by a child process"], check=True)


def curve(config, iteration):
    if iteration == 1:
        print("printed later")
        os.write(1, b"written later\\n")
    return {"accuracy": 0.1 * iteration}
"""
JOB = """
trainable: noisy.py:curve
space: {x: {float: [0.0, 1.0]}}
metric: accuracy
search: {algorithm: sha, trials: 2, min_iterations: 1, max_iterations: 2, eta: 2}
profile: {iteration: 5s}
cluster: {slots_per_node: 1, nodes: 1, price_per_hour: 1.0}
"""


def test_what_a_trainable_and_its_children_write_goes_to_standard_error(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    (tmp_path / "job.yaml").write_text(JOB)
    done = subprocess.run(
        [sys.executable, "-m", "elastune", "simulate", "job.yaml", "--json", "--no-journal"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ending"] == "complete"
    noise = ("printed at import", "written by native code", "said by a child process")
    for line in (*noise, "printed later", "written later"):
        assert line in done.stderr


def test_json_is_printed_wherever_standard_output_goes_just_then(capsys: pytest.CaptureFixture[str]) -> None:
    with json_output(True), contextlib.redirect_stdout(sys.stderr):
        print("from a library")
        print_json({"answer": 42})
    out, err = capsys.readouterr()
    assert json.loads(out) == {"answer": 42}
    assert err == "from a library\n"
    print_json({"answer": 43})
    assert json.loads(capsys.readouterr().out) == {"answer": 43}


def fail_loudly(as_json: bool) -> None:
    with json_output(as_json):
        print("from a library")
        raise JobError("no deadline")


def test_an_error_is_json_too_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        fail_loudly(as_json=True)
    out, err = capsys.readouterr()
    assert json.loads(out) == {"error": "job", "message": "no deadline"}
    assert err == "from a library\n"


def test_without_json_standard_output_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(JobError):
        fail_loudly(as_json=False)
    assert capsys.readouterr() == ("from a library\n", "")
