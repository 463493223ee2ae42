"""Whole runs in real processes on local Ray nodes, with everything that may go wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rich.console

import elastune
from elastune.core.commands import Ending
from elastune.core.events import StopAsked
from elastune.core.state import State
from elastune.errors import ExecutionError
from elastune.views.terminal.status import render_finished, render_status
from tests.runtime.real.drivers import Driver
from tests.runtime.real.runs import (
    Watch,
    as_function,
    assert_undisturbed,
    job_of,
    kill,
    our_processes,
    run,
    wait_until_gone,
)
from tests.views.sketching import sketched

__all__ = ["sketched"]

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = our_processes()
    yield
    wait_until_gone(before)


def test_a_search_runs_to_its_end_and_the_best_model_can_be_loaded(tmp_path: Path) -> None:
    finished = run(job_of(), tmp_path)
    result = finished.result
    assert result.ending is Ending.COMPLETE
    assert result.phases == dict(elastune.simulate(as_function(job_of())).phases)
    assert result.best is not None
    assert result.best.checkpoint is not None
    assert elastune.load_checkpoint(result.best.checkpoint) == {"done": result.best.iterations}
    kept = sorted((finished.folder.path / "checkpoints").rglob("*.ckpt"))
    assert [str(path) for path in kept] == [result.best.checkpoint]
    told = elastune.status(finished.folder.path, audit=True)
    assert told.audit is not None
    assert told.audit.is_clean
    loaded = elastune.load_run(finished.folder.path)
    assert told.standing.best == loaded.best == loaded.model() == result.best
    first = loaded.trials().sort_values("best", ascending=False).iloc[0]
    assert (first["trial"], first["best"]) == (result.best.trial, result.best.metric)
    assert first["checkpoint"] == result.best.checkpoint
    page = elastune.report(finished.folder.path).page.read_text()
    assert finished.final_check is not None
    assert finished.final_check.left == ()
    assert told.final_check == finished.final_check
    words = f"no nodes left running ({finished.final_check.how})"
    assert words in page
    shown = io.StringIO()
    console = rich.console.Console(file=shown, width=200)
    console.print(render_finished(finished))
    console.print(render_status(told))
    assert shown.getvalue().count(words) == 2


class _KillNode(Watch):
    def is_time(self, state: State) -> bool:
        return state.iterations >= 3

    def act(self) -> None:
        raylets = [pid for pid, line in our_processes().items() if "raylet/raylet" in line]
        kill([max(raylets)])  # the head's is the oldest


def test_a_node_that_is_lost_costs_time_and_nothing_else(tmp_path: Path) -> None:
    watch = _KillNode()
    finished = run(job_of(), tmp_path, watch)
    assert watch.acted
    assert_undisturbed(finished, job_of())


class _BlockFolder(Watch):
    """The folder for checkpoints becomes a file: nothing can be written any more."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def is_time(self, state: State) -> bool:
        return state.iterations >= 2

    def act(self) -> None:
        (folder,) = self.root.glob("*/checkpoints")
        folder.rename(folder.with_name("away"))
        folder.write_text("in the way")


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="checkpoints"):
        run(job_of(), tmp_path, _BlockFolder(tmp_path))
    (found,) = elastune.list_runs(tmp_path).runs
    assert found.state == "stopped"


def test_a_folder_that_cannot_be_written_is_told_before_anything_trains(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(ExecutionError, match="file"):
        run(job_of(storage=str(blocked / "checkpoints")), tmp_path / "runs")


@pytest.mark.slow
def test_a_trainable_that_the_workers_cannot_open_ends_the_run(tmp_path: Path) -> None:
    script = tmp_path / "shy.py"
    script.write_text(
        "import sys\n"
        "if 'ray' not in sys.modules: raise RuntimeError('not here')\n"
        "def train(config, worker, state):\n    yield {'score': 1.0}, dict\n"
    )
    import ray  # noqa: F401, PLC0415  the script wants it

    with pytest.raises(ExecutionError, match="not here"):
        run(job_of(trainable=f"{script}:train"), tmp_path / "runs")


LONG: dict[str, Any] = {
    "space": {"x": {"float": [0.0, 1.0]}, "sleep": {"choice": [0.5]}},
    "profile": {"iteration": 0.5, "startup": 0.05, "save": 0.05},
}


@pytest.mark.slow
def test_a_run_is_stopped_from_another_process(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.wait_for_checkpoint()
    elastune.stop("last", folder=driver.runs)
    driver.wait_for_event(StopAsked)
    told = json.loads(driver.end())
    assert driver.process.returncode == 0
    assert told["ending"] == "stopped"
    assert Path(told["best"]["checkpoint"]).is_file()
