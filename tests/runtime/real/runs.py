"""Real runs for tests: small jobs on local nodes, and a look at the processes that they leave."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import elastune
from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run
from elastune.core.commands import Ending
from elastune.core.state import State
from elastune.job.job import Job
from elastune.runs.real import FinishedRun
from tests.runtime.real.slot_processes import TRAINABLES
from tests.waiting import SLOW_BOOT_S, wait_until

# Inherited by whatever a run starts, and by nothing that others start on this machine.
MARK = f"of-test-process-{os.getpid()}-{time.time_ns()}"
os.environ["ELASTUNE_TEST_MARK"] = MARK


def job_of(name: str = "count", **changes: object) -> Job:
    sections: dict[str, object] = {
        "trainable": f"{TRAINABLES}:{name}",
        "space": {"x": {"float": [0.0, 1.0]}, "sleep": {"choice": [0.05]}},
        "metric": "score",
        "search": {"algorithm": "sha", "trials": 4, "min_iterations": 2, "max_iterations": 8, "eta": 2},
        "deadline": "1h",  # far above what a busy machine takes
        "profile": {"iteration": 0.05, "startup": 0.05, "save": 0.05},
        "cluster": {
            "slots_per_node": 2,
            "max_nodes": 2,
            "price_per_hour": 3.6,
            "minimum_charge": 1,
            "init": SLOW_BOOT_S,
        },
    }
    sections |= changes
    return Job.from_dict({key: value for key, value in sections.items() if value is not None})


def run(job: Job, folder: Path, watch: Watch | None = None, policy: str | None = None) -> FinishedRun:
    return carry_out_run(prepare_to_run(job, policy=policy), folder=folder, watch=watch)


def as_function(job: Job) -> Job:
    """The same learning curves for the simulator."""
    return job.model_copy(
        update={"trainable": lambda config, iteration: {"score": config["x"] + 0.001 * iteration}}
    )


def assert_undisturbed(finished: FinishedRun, job: Job) -> None:
    """It found what it would have found if nothing had happened, as the simulator knows."""
    expected = elastune.simulate(as_function(job))
    assert finished.result.ending is Ending.COMPLETE
    assert finished.result.best is not None
    assert expected.best is not None
    assert finished.result.best.trial == expected.best.trial
    assert finished.result.best.metric == pytest.approx(expected.best.metric)
    assert finished.result.phases == dict(expected.phases)


class Watch:
    """Acts once, when `is_time` says so of the state."""

    def __call__(self, state: State) -> None:
        if not self.acted and self.is_time(state):
            self.acted = True
            self.act()

    acted = False

    def is_time(self, state: State) -> bool:
        raise NotImplementedError

    def act(self) -> None:
        raise NotImplementedError


def our_processes() -> dict[int, str]:
    """Every process that a real run of this test process has started, by pid."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            is_ours = MARK.encode() in (entry / "environ").read_bytes()
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if is_ours and line:  # those that have ended have no command line any more
            found[int(entry.name)] = line
    return found


def slot_processes() -> list[int]:
    """With the processes that they were forked from, which have the same command line and are older."""
    names = ("elastune.runtime.ray.fork_server", "elastune.runtime.ray.warm_process")
    return sorted(pid for pid, line in our_processes().items() if any(name in line for name in names))


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def wait_until_gone(before: dict[int, str]) -> None:
    """Until nothing is left of what was not there `before`."""
    wait_until(lambda: our_processes().keys() <= before.keys(), our_processes, every_s=0.1)
