"""Runs on the Ray node of the driver itself, where the slots belong to the driver and Ray keeps the CPUs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import elastune
from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run
from elastune.core.commands import Ending
from elastune.core.state import State
from elastune.runs.real import FinishedRun
from tests.exports.test_live import check_tensorboard
from tests.runtime.real.runs import Watch, job_of, kill, our_processes, slot_processes, wait_until_gone
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)
CPUS = 2


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    import ray  # noqa: PLC0415

    spare = {"prestart_worker_first_driver": False, "enable_worker_prestart": False}
    ray.init(
        num_cpus=CPUS,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        _system_config=spare,
    )
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def run_at_home(
    address: str, folder: Path, watch: Watch | None = None, name: str = "count", **changes: object
) -> FinishedRun:
    cluster = {"slots_per_node": CPUS, "nodes": 1, "price_per_hour": 3.6, "minimum_charge": 1}
    job = job_of(name, cluster=cluster, **changes)
    return carry_out_run(prepare_to_run(job, address=address), folder=folder, watch=watch)


def free_cpus() -> float:
    import ray  # noqa: PLC0415

    return float(ray.available_resources().get("CPU", 0.0))


def assert_all_is_given_back() -> None:
    wait_until(lambda: free_cpus() >= CPUS, "the CPUs were not given back")
    wait_until(lambda: not slot_processes(), "the slot processes live on")


class LookAndKill(Watch):
    """Amid the training: what the run holds; then a slot process is killed."""

    def is_time(self, state: State) -> bool:
        return state.iterations > 2

    def act(self) -> None:
        self.free, self.slots = free_cpus(), len(slot_processes())
        kill([slot_processes()[-1]])


@pytest.fixture(scope="module")
def at_home(address: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[FinishedRun, LookAndKill]:
    """A run that goes well, but for one of its loggers and one of its slots."""
    folder, look = tmp_path_factory.mktemp("home"), LookAndKill()
    (folder / "file").write_text("")
    logging = {"csv": str(folder / "file" / "deeper"), "tensorboard": True}
    finished = run_at_home(address, folder / "runs", look, logging=logging)
    assert_all_is_given_back()
    return finished, look


def test_a_run_at_home_holds_the_cpus_and_gives_them_back(at_home: tuple[FinishedRun, LookAndKill]) -> None:
    finished, look = at_home
    assert finished.result.ending is Ending.COMPLETE
    assert finished.result.best is not None
    assert look.free == 0.0
    assert look.slots == 1 + CPUS  # the fork server too


def test_a_logger_that_breaks_does_not_break_the_run(at_home: tuple[FinishedRun, LookAndKill]) -> None:
    finished, _ = at_home
    assert finished.result.ending == "complete"
    (remark,) = (each for each in finished.standing.remarks if each.topic == "logging")
    assert remark.text.startswith("writing for csv has stopped: NotADirectoryError")
    check_tensorboard(elastune.load_run("last", folder=finished.folder.path.parent))


def test_a_slot_that_is_killed_at_home_is_replaced(at_home: tuple[FinishedRun, LookAndKill]) -> None:
    finished, look = at_home
    assert look.acted
    assert finished.result.ending is Ending.COMPLETE
    assert finished.result.phases.get("failed", 0) == 0


@pytest.mark.slow
def test_without_its_fork_server_the_node_is_lost_and_comes_again(address: str, tmp_path: Path) -> None:
    class Murder(Watch):
        def is_time(self, state: State) -> bool:
            return state.iterations > 2

        def act(self) -> None:
            kill([slot_processes()[0]])

    finished = run_at_home(address, tmp_path, Murder())
    assert finished.result.ending is Ending.COMPLETE
    assert_all_is_given_back()


def test_a_run_that_breaks_leaves_nothing_behind(address: str, tmp_path: Path) -> None:
    class Break(Watch):
        def is_time(self, state: State) -> bool:
            return bool(state.held)

        def act(self) -> None:
            raise ZeroDivisionError("of whoever watches")

    with pytest.raises(ZeroDivisionError):
        run_at_home(address, tmp_path, Break())
    assert_all_is_given_back()


def test_trials_that_break_fail_alone(address: str, tmp_path: Path) -> None:
    space = {"how": {"choice": ["raise", "exit", "hard-exit", "hang", "nan", "nothing"]}}
    finished = run_at_home(
        address,
        tmp_path,
        name="misbehave",
        space=space,
        search={"algorithm": "grid", "max_iterations": 5, "max_slots_per_trial": 1},
        hang_after="5s",
    )
    result = finished.result
    assert result.ending is Ending.COMPLETE
    assert result.phases == {"finished": 1, "failed": 5}
    assert result.best is not None
    assert result.best.config["how"] == "nothing"
    errors = "\n".join(failure.error for failure in finished.standing.failures)
    for told in ("the learning rate is a lie", "SystemExit", "exit code 7", "hung", "diverged"):
        assert told in errors
    assert "the learning rate is a lie" in "".join(
        path.read_text() for path in (finished.folder.path / "logs").glob("*.log")
    )


@pytest.mark.slow
def test_it_waits_until_somebody_else_gives_the_cpus_back(
    address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import ray  # noqa: PLC0415

    class Holder:
        def hold(self) -> None:
            pass

    holder = ray.remote(num_cpus=CPUS)(Holder).remote()
    ray.get(holder.hold.remote())
    before = our_processes()
    done: list[FinishedRun] = []
    thread = threading.Thread(target=lambda: done.append(run_at_home(address, tmp_path)))
    thread.start()
    wait_until(lambda: "of this Ray node, which others use" in caplog.text, "it does not say that it waits")
    assert not slot_processes(), "it trains on CPUs that are somebody else's"
    ray.kill(holder)
    thread.join(PATIENCE_S)
    assert done
    assert done[0].result.ending is Ending.COMPLETE
    assert_all_is_given_back()
    ours = {pid for pid, line in our_processes().items() if "elastune" not in line}
    wait_until_gone({**before, **dict.fromkeys(ours, "")})
