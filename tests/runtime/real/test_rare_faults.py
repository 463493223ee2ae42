"""What seldom happens, and takes long to happen, in real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import elastune
from elastune.api.profiling import profile
from elastune.core.commands import Ending
from elastune.core.events import GangStarted, RestAsked
from elastune.core.state import State
from elastune.errors import ExecutionError
from elastune.providers.local.supervisor import HANGING_BOOTS
from elastune.runs.profiling import Effort
from tests.runtime.real.drivers import Driver
from tests.runtime.real.runs import Watch, job_of, kill, our_processes, run, slot_processes, wait_until_gone
from tests.runtime.real.slot_processes import TRAINABLES
from tests.runtime.real.test_real_run import LONG
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]

GANGS = {"algorithm": "sha", "trials": 2, "min_iterations": 4, "max_iterations": 8, "eta": 2}


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = our_processes()
    yield
    wait_until_gone(before)


def test_a_node_that_never_comes_up_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HANGING_BOOTS, "1")
    finished = run(job_of(), tmp_path)
    assert finished.result.ending is Ending.COMPLETE
    assert any("did not come up" in remark.text for remark in finished.standing.remarks)


def test_the_reason_of_a_node_that_never_comes_up_is_kept_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's log went with the cluster, and the error said only how long it had waited."""
    monkeypatch.setenv(HANGING_BOOTS, "99")
    job = job_of(profile=None, cluster={"slots_per_node": 2, "max_nodes": 1, "price_per_hour": 0, "init": 1})
    with pytest.raises(ExecutionError, match="no node was up") as caught:
        profile(job, effort=Effort(boots=0, most_s=6.0), folder=tmp_path)
    assert "never came up" in str(caught.value)
    (log, *_) = tmp_path.glob("*/logs/node-*.log")
    assert not log.read_text() or str(log) in str(caught.value)


class _KillFollower(Watch):
    """A worker of a gang that lies on two nodes."""

    def is_time(self, state: State) -> bool:
        return state.iterations >= 2

    def act(self) -> None:
        kill([slot_processes()[-1]])


def test_a_gang_on_two_nodes_survives_the_death_of_a_worker(tmp_path: Path) -> None:
    watch = _KillFollower()
    job = job_of(search={**GANGS, "min_slots_per_trial": 4}, **LONG)
    finished = run(job, tmp_path, watch)
    assert watch.acted
    assert finished.result.ending is Ending.COMPLETE
    assert finished.result.phases.get("failed", 0) == 0
    assert finished.result.best is not None
    assert elastune.load_checkpoint(str(finished.result.best.checkpoint)) == {
        "done": finished.result.best.iterations
    }


class _KillHead(Watch):
    def is_time(self, state: State) -> bool:
        return state.iterations >= 2

    def act(self) -> None:
        kill([pid for pid, line in our_processes().items() if "gcs_server" in line])


def test_without_its_head_a_run_ends_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="head"):
        run(job_of(**LONG), tmp_path, _KillHead())


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    driver = Driver(tmp_path, held_at=1)
    driver.wait_for_event(GangStarted)
    driver.process.send_signal(signal.SIGINT)
    driver.wait_for_event(RestAsked)
    driver.process.send_signal(signal.SIGINT)
    driver.process.communicate(timeout=PATIENCE_S)
    assert driver.process.returncode == 130


def test_a_function_of_a_script_is_tuned(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import elastune

        def train(config, worker, state):
            done = state or 0
            while done < 5:
                done += 1
                yield {"score": config["x"] * done}, lambda: done

        if __name__ == "__main__":
            result = elastune.tune(
                train, space={"x": {"float": [0, 1]}}, metric="score", deadline="5m",
                search={"algorithm": "sha", "trials": 3, "max_iterations": 5},
                profile={"iteration": 0.01},
                cluster={"slots_per_node": 2, "max_nodes": 1, "price_per_hour": 1},
            )
            print(result.ending, elastune.load_checkpoint(result.best.checkpoint))
        """)
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.strip() == "complete 5", done.stderr


_WARM_AND_SERVER = 2

MOMENTS: dict[str, Callable[[Driver], object]] = {
    "folder": lambda driver: list(driver.runs.glob("*")),
    "journal": lambda driver: list(driver.runs.glob("*/journal.sqlite")),
    "head": lambda driver: any("gcs_server" in line for line in our_processes().values()),
    "node": lambda driver: sum("raylet/raylet" in line for line in our_processes().values()) > 1,
    "warm process": lambda driver: slot_processes(),
    "slots": lambda driver: len(slot_processes()) > _WARM_AND_SERVER,
    "checkpoint": lambda driver: list(driver.runs.glob("*/checkpoints/*/*.ckpt")),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_that_is_killed_at_any_moment_leaves_nothing(tmp_path: Path, moment: str) -> None:
    driver = Driver(tmp_path)
    driver.wait_for(lambda: MOMENTS[moment](driver), moment)
    driver.kill()


def test_what_a_killed_driver_had_saved_is_there(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    folder = driver.wait_for_checkpoint()
    driver.wait_for(lambda: elastune.status(folder).standing.best, "the journal knows no best trial")
    driver.kill()
    best = elastune.status(folder).standing.best
    assert best is not None
    assert elastune.load_checkpoint(str(best.checkpoint)) == {"done": best.iterations}


def test_a_killed_driver_leaves_no_shared_data_and_the_next_one_loads_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "t"
    temporary.mkdir()
    with monkeypatch.context() as changed:
        changed.setenv("TMPDIR", str(temporary))
        driver = Driver(tmp_path, trainable=f"{TRAINABLES}:share")
    folder = driver.wait_for_checkpoint()
    driver.wait_for(lambda: elastune.status(folder).standing.best, "the journal has no row")
    (shared,) = temporary.glob("elastune-shared-*")
    assert len([path for path in shared.iterdir() if not path.name.startswith(".")]) == 1
    driver.kill()
    wait_until(lambda: not shared.exists(), "shared data are left")
    before = set(elastune.load_run(folder).rows(lost=True)["loader"])
    assert len(before) == 1, "nodes of one machine share, too"
    driver.let_go()
    assert elastune.resume(folder).ending == "complete"
    assert len(set(elastune.load_run(folder).rows(lost=True)["loader"]) - before) == 1
