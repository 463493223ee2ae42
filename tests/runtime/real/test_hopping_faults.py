"""Models that hop, and what may happen to them: every loss costs time and nothing else."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import elastune
from elastune.core.commands import Ending
from elastune.core.state import State
from elastune.errors import ElastuneError
from elastune.runs.run_list import RunState
from tests.runtime.real.doomed import interrupt
from tests.runtime.real.drivers import Driver
from tests.runtime.real.hoppers import (
    data_of,
    digest_of,
    hopping_job,
    leftovers,
    rows_of,
    sections,
    watch_journal,
    write_data,
)
from tests.runtime.real.runs import Watch, kill, our_processes, run, slot_processes, wait_until_gone
from tests.runtime.real.test_hopping import HEAVY, check

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

OFTEN: dict[str, Any] = {"checkpoint_every": "1s", "space": {**HEAVY, "sleep": {"choice": [0.4]}}}
"""Visits take long enough to be interrupted, and about every third state amid an epoch is durable."""


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = our_processes()
    yield
    wait_until_gone(before)


class _KillSlot(Watch):
    """Amid a visit of the second epoch."""

    def is_time(self, state: State) -> bool:
        return state.iterations >= 5 and len(state.held) == 2

    def act(self) -> None:
        kill([slot_processes()[-1]])


class _KillNode(_KillSlot):
    """With the models that lie there."""

    def act(self) -> None:
        kill([max(pid for pid, line in our_processes().items() if "raylet/raylet" in line)])


@pytest.mark.parametrize(
    ("assassin", "replicas"),
    [
        (_KillNode, 1),
        pytest.param(_KillSlot, 1, marks=pytest.mark.slow),
        pytest.param(_KillSlot, 2, marks=pytest.mark.slow),
        pytest.param(_KillNode, 2, marks=pytest.mark.slow),
    ],
)
def test_a_loss_amid_an_epoch_costs_time_and_nothing_else(
    tmp_path: Path, assassin: type[Watch], replicas: int
) -> None:
    folder = write_data(tmp_path / "data")
    assassin_watches = assassin()
    job = hopping_job(folder, data={"replicas": replicas}, **OFTEN)
    finished = run(job, tmp_path / "runs", assassin_watches)
    assert assassin_watches.acted
    check(finished, data_of(folder))


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["killed", "rests"])
def test_a_run_goes_on_amid_an_epoch_after_its_driver(tmp_path: Path, ending: str) -> None:
    folder, runs = write_data(tmp_path / "data"), tmp_path / "runs"
    driver = Driver(tmp_path, **sections(folder, **OFTEN))
    before = driver.wait_for_checkpoint()
    if ending == "killed":
        driver.kill()
        driver.let_go()
    else:
        driver.interrupt()
        assert [line.state for line in elastune.list_runs(runs).runs] == [RunState.SUSPENDED]
    result = elastune.resume("last", folder=runs)
    check_resumed(result, before, data_of(folder))


@pytest.mark.slow
@pytest.mark.parametrize("commands", [[3], [9], [14, 8], [21], [24, 6]], ids=str)
def test_a_driver_that_dies_at_any_command_goes_on_to_the_same_end(
    tmp_path: Path, commands: list[int]
) -> None:
    """Each number is how many commands a driver carries out before it is killed."""
    data, runs = write_data(tmp_path / "data"), tmp_path / "runs"
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(hopping_job(data, **OFTEN).to_dict(), sort_keys=False))
    assert interrupt(job, runs, commands[0]) == -signal.SIGKILL
    (folder,) = runs.iterdir()
    for command in commands[1:]:
        assert interrupt("last", runs, command) == -signal.SIGKILL
    check_resumed(elastune.resume("last", folder=runs), folder, data_of(data))


def check_resumed(result: elastune.RunResult, folder: Path, data: list[np.ndarray]) -> None:
    watch = watch_journal(folder)
    assert result.ending is Ending.COMPLETE
    assert result.phases == {"stopped": 3, "finished": 1}
    assert result.best is not None
    x: Any = result.best.config["x"]
    assert result.best.metric == pytest.approx(x + 0.004)
    mean = float(np.concatenate(data).mean())
    rows = rows_of(folder)
    assert sum(map(len, rows.values())) == result.iterations, "nothing is counted twice"
    assert all(row.metrics["mean"] == pytest.approx(mean) for some in rows.values() for row in some)
    assert result.best.checkpoint is not None
    state = elastune.load_checkpoint(result.best.checkpoint)
    assert state["digest"] == digest_of(watch, result.best.trial, x, data)
    assert list(folder.rglob("underway-*")) == []
    told = elastune.status(folder, audit=True)
    assert told.audit is not None
    assert told.audit.is_clean


@pytest.mark.slow
def test_trials_that_break_on_one_partition_fail_alone(tmp_path: Path) -> None:
    folder = write_data(tmp_path / "data")
    space = {"how": {"choice": ["raise", "hard-exit", "hang", "nan", "none", "nothing"]}, **HEAVY}
    job = hopping_job(
        folder,
        "Odd",
        space={**space, "x": {"choice": [0.5]}},
        search={"algorithm": "grid", "max_iterations": 3},
        hang_after="3s",
    )
    finished = run(job, tmp_path / "runs")
    assert finished.result.ending is Ending.COMPLETE
    assert finished.result.phases == {"finished": 2, "failed": 4}
    errors = "\n".join(failure.error for failure in finished.standing.failures)
    for told in ("partition 2 is a lie", "exit code 7", "hung", "diverged"):
        assert told in errors
    best = finished.result.best
    assert best is not None
    assert (best.config["how"], best.iterations) == ("nothing", 3)
    watch = watch_journal(finished.folder.path)
    done = {trial: len(orders) for trial, orders in watch.orders.items()}
    assert sorted(done.values()) == [1, 1, 1, 1, 2, 3], "the epoch with the NaN was whole, and no good"
    assert leftovers(finished) == []


class _SpoilData(Watch):
    """While nodes boot, when the data are registered and not yet read."""

    def __init__(self, path: Path, how: str) -> None:
        self.path, self.how = path, how

    def is_time(self, state: State) -> bool:
        return bool(state.trials)

    def act(self) -> None:
        match self.how:
            case "missing":
                self.path.unlink()
            case "corrupt":
                self.path.write_bytes(b"PK\x03\x04 and nothing more")
            case "changed":
                np.savez(self.path, x=np.arange(2.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("missing", "there is no such file"),
        ("corrupt", "cannot be read"),
        ("changed", "a file was changed: begin a new run"),
    ],
)
def test_data_that_cannot_be_read_are_named_and_end_the_run(tmp_path: Path, how: str, told: str) -> None:
    folder = write_data(tmp_path / "data")
    watch = _SpoilData(folder / "part-2.npz", how)
    error = ""
    try:
        finished = run(hopping_job(folder), tmp_path / "runs", watch)
    except ElastuneError as failed:
        error = str(failed)
    else:
        assert finished.result.ending is Ending.FAILED
        error = "\n".join(failure.error for failure in finished.standing.failures)
    assert watch.acted
    assert told in error
    assert "part-2.npz" in error
