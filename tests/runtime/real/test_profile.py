"""Measuring in real processes, and jobs that are measured before they run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import elastune
from elastune.api.profiling import measured, profile
from elastune.errors import ExecutionError
from elastune.runs.profiling import Effort, Profiled
from tests.cli.commands import elastune as elastune_command
from tests.runtime.real.runs import job_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]

UNMEASURED: dict[str, Any] = {
    "space": {"x": {"float": [0.0, 1.0]}, "sleep": {"choice": [0.8]}},
    "profile": None,
    "cluster": {"slots_per_node": 2, "max_nodes": 4, "price_per_hour": 3.6, "minimum_charge": 1},
}


def test_sleeping_iterations_are_measured_by_the_size_of_the_gang(tmp_path: Path) -> None:
    taken = profile(job_of(**UNMEASURED), effort=Effort(boots=2), folder=tmp_path, out=tmp_path / "out.json")
    points = dict(taken.profile.speedup.points)
    assert taken.profile.iteration.mean == pytest.approx(0.8, rel=0.3)
    assert points[2] == pytest.approx(2.0, rel=0.3)
    assert points[4] == pytest.approx(4.0, rel=0.4)
    assert taken.measurements.boot[1]
    assert json.loads((tmp_path / "out.json").read_text())["key"] == taken.key


def test_a_job_is_measured_once(tmp_path: Path) -> None:
    job = job_of(**UNMEASURED)
    planned, how = measured(job, folder=tmp_path)
    assert isinstance(how, Profiled)
    assert planned.is_measured
    assert planned.deadline is not None
    assert job.deadline is not None
    assert planned.deadline < job.deadline
    assert planned.cluster.init.mean > 0.0
    again, kept = measured(job, folder=tmp_path)
    assert isinstance(kept, Path)
    assert again.deadline == job.deadline
    assert elastune.plan(again).cost > 0.0


def test_a_job_with_gangs_of_two_is_measured_without_one_slot_and_found_again(tmp_path: Path) -> None:
    changes = {
        **UNMEASURED,
        "search": {"algorithm": "sha", "trials": 4, "max_iterations": 4, "min_slots_per_trial": 2},
    }
    job = job_of(**changes)
    planned, how = measured(job, folder=tmp_path)
    assert isinstance(how, Profiled)
    assert min(how.measurements.iterations) == 2
    assert planned.profile.iteration.mean / planned.profile.speedup.at(2) == pytest.approx(0.4, rel=0.3)
    assert elastune.plan(planned).cost > 0.0
    assert measured(job, folder=tmp_path)[1] == how.path


def test_configurations_are_told_apart_by_their_hyperparameters(tmp_path: Path) -> None:
    space = {"x": {"float": [0.0, 1.0]}, "sleep": {"choice": [0.1, 0.8]}}
    changes = {**UNMEASURED, "space": space, "cluster": {**UNMEASURED["cluster"], "max_nodes": 1}}
    taken = profile(job_of(**changes), effort=Effort(boots=0), folder=tmp_path)
    assert taken.influences()[0].name == "sleep"
    assert taken.influences()[0].ratio == pytest.approx(8.0, rel=0.5)
    by_sleep = {dict(each.config)["sleep"]: each.factor for each in taken.profile.speeds}
    assert by_sleep[0.8] / by_sleep[0.1] == pytest.approx(8.0, rel=0.5)
    assert taken.to_dict()["speeds"] == [each.to_dict() for each in taken.profile.speeds]


def test_a_plan_measures_first_if_it_may(tmp_path: Path) -> None:
    changes = {**UNMEASURED, "space": {"x": {"choice": [0.5]}, "sleep": {"choice": [0.05]}}}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job_of(**changes).to_dict()), encoding="utf-8")
    done = elastune_command("plan", path, "--yes", "--runs-folder", tmp_path / "runs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kept in" in done.stderr
    assert "Cheapest plan" in done.stdout
    again = elastune_command("plan", path, "--runs-folder", tmp_path / "runs", cwd=tmp_path)
    assert "the same training was measured on" in again.stderr
    run = elastune_command("run", path, "--yes", "--runs-folder", tmp_path / "runs", cwd=tmp_path)
    assert "the same training was measured on" in run.stderr, "the run would pay for it again"


def test_a_training_that_always_fails_is_told(tmp_path: Path) -> None:
    job = job_of("misbehave", **{**UNMEASURED, "space": {"how": {"choice": ["raise"]}}})
    taken = profile(job, effort=Effort(iterations=2, boots=0), folder=tmp_path)
    assert taken.profile.iteration.mean > 0.0  # two iterations came before it raised
    broken = job.model_copy(update={"trainable": _breaks})
    with pytest.raises(ExecutionError, match="all trials failed"):
        profile(broken, effort=Effort(boots=0), folder=tmp_path)


def _breaks(config: object, worker: object, state: object) -> Iterator[float]:
    if config is not None:
        raise RuntimeError("no data")
    yield 0.0
