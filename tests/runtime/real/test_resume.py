"""A run whose driver died goes on from its journal and its checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import elastune
from elastune.api.running import NewLimits, run_on
from elastune.errors import ExecutionError, JobError
from elastune.journal.run_folders import find_run
from elastune.runs.resuming import take_up
from elastune.runs.run_list import RunState
from tests.runtime.real.doomed import survive, undisturbed
from tests.runtime.real.drivers import Driver
from tests.runtime.real.runs import our_processes, wait_until_gone

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = our_processes()
    yield
    wait_until_gone(before)


def _check(result: elastune.RunResult, folder: Path) -> None:
    expected = undisturbed()
    assert result.best is not None
    assert expected.best is not None
    assert (result.best.trial, result.best.metric) == (expected.best.trial, expected.best.metric)
    assert result.phases == dict(expected.phases)
    told = elastune.status("last", folder=folder, audit=True)
    assert told.audit is not None
    assert told.audit.is_clean


@pytest.mark.slow  # one that is killed once trials train goes on to the same end in exports/test_live.py
@pytest.mark.parametrize("seed", range(12))
def test_a_driver_that_is_killed_at_any_command_goes_on_to_the_same_end(seed: int, tmp_path: Path) -> None:
    _check(survive(seed, tmp_path), tmp_path / "runs")


@pytest.mark.slow  # Ctrl-C in cli/test_live_run.py, a resumed run in exports/test_live.py
def test_ctrl_c_saves_everything_and_the_run_goes_on_with_other_limits(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    folder = driver.wait_for_checkpoint()
    told = json.loads(driver.interrupt())
    assert driver.process.returncode == 130
    assert told["error"] == "interrupted"
    assert told["resume"] == f"elastune resume {told['run']}"
    rests = elastune.status(folder)
    assert rests.final_check is not None
    assert rests.final_check.left == ()
    assert rests.standing.phases.get("running", 0) == 0
    assert rests.standing.nodes.ready == rests.standing.nodes.booting == 0
    assert [line.state for line in elastune.list_runs(tmp_path / "runs").runs] == [RunState.SUSPENDED]
    for behind in ({"deadline": "10ms"}, {"budget": "$0.0000001"}):
        with pytest.raises(JobError, match="already; expected more, for the whole run"):
            elastune.resume("last", folder=tmp_path / "runs", **behind)  # type: ignore[arg-type]
    stale = take_up(find_run(tmp_path / "runs", "last"))  # by somebody who thinks about it for long
    result = elastune.resume("last", folder=tmp_path / "runs", deadline="2h", budget=5)
    with pytest.raises(ExecutionError, match=r"run .* was resumed by another process"):
        run_on(stale, NewLimits())
    assert result.ending == "complete"
    status = elastune.status("last", folder=tmp_path / "runs")
    assert any(remark.topic == "limits" for remark in status.standing.remarks)
    limits = status.standing.limits
    assert limits.deadline_s is not None
    assert limits.deadline_s + status.standing.startup_s == pytest.approx(7200.0)
    assert limits.budget_usd == 5.0
    assert status.final_check is not None
    assert status.final_check.left == ()
    with pytest.raises(JobError, match=r"has ended \(complete\): there is nothing to resume"):
        elastune.resume("last", folder=tmp_path / "runs")


def test_a_simulated_run_cannot_be_resumed(tmp_path: Path) -> None:
    elastune.simulate_many({"trainable": "synthetic:hypersched", **_SMALL}, folder=tmp_path)
    with pytest.raises(JobError, match="is simulated"):
        elastune.resume("last", folder=tmp_path)


_SMALL = {
    "search": {"algorithm": "sha", "trials": 4, "max_iterations": 9},
    "profile": {"iteration": 1},
    "cluster": {"slots_per_node": 2, "max_nodes": 2, "price_per_hour": 1},
}
