"""Whole runs on a real Slurm, which pre-empts, suspends, queues again and limits their jobs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from elastune.core.events import NodeLost, NodeNoticed, NodesGranted
from elastune.providers.slurm.calls import parse_time
from tests.hosts.cluster_run import ClusterRun
from tests.providers.slurm.rig import SlurmRig
from tests.waiting import wait_until

pytestmark = pytest.mark.slow  # nodes of Ray boot

TRIALS, SLOTS = 2, 2


class SlurmRun(ClusterRun):
    """Two trials on two nodes of two slots, which are all of a machine. Their scores get worse, so they save
    when they have to and at the end, and every iteration that a node takes with it is repeated."""

    def __init__(self, slurm: SlurmRig, folder: Path, iterations: int, **options: Any) -> None:
        self.slurm = slurm
        self.iterations = iterations
        own = {"folder": str(folder / "jobs"), "lost_head_after": "10s", "notice": "60s", **options}
        cluster = {"provider": "slurm", "max_nodes": 2, "slots_per_node": SLOTS, "options": own}
        search = {"algorithm": "random", "trials": TRIALS, "max_iterations": iterations}
        search |= {"min_slots_per_trial": SLOTS, "max_slots_per_trial": SLOTS}
        super().__init__(folder, cluster, 1.0, search=search, checkpoint_every="1h", mode="min")

    def job(self, cluster: Mapping[str, Any], store: str) -> dict[str, Any]:
        made = super().job(cluster, store)
        del made["cluster"]["nodes"]  # which would be a fixed cluster
        return made

    def first_node(self) -> tuple[str, str]:
        """Of the running jobs, once trials train: its id and its machine."""
        self.until(lambda: len({mark[1] for mark in self.marks()}) > 2, "no iteration")
        listed = self.slurm.call("squeue", "--array", "--states=RUNNING", "--noheader", "--format=%i %N")
        id_, host = min(line.split() for line in listed.splitlines())
        return id_, host

    def finish(self) -> int:
        """How many iterations were repeated."""
        result = self.result()
        assert result["ending"] == "complete", self.said()
        assert result["phases"] == {"finished": TRIALS}
        assert result["farewell"]["left"] == []
        assert self.slurm.jobs() == []
        return len(self.marks()) // SLOTS - TRIALS * self.iterations


class Start(Protocol):
    def __call__(self, iterations: int, **options: Any) -> SlurmRun: ...


@pytest.fixture
def start(slurm: SlurmRig, tmp_path: Path) -> Iterator[Start]:
    made: list[SlurmRun] = []

    def begin(iterations: int, **options: Any) -> SlurmRun:
        run = SlurmRun(slurm, tmp_path, iterations, **options)
        run.start()
        made.append(run)
        return run

    yield begin
    for each in made:
        each.stop()


def test_a_job_that_is_preempted_with_a_grace_time_is_left_in_time(slurm: SlurmRig, start: Start) -> None:
    run = start(40, partition="lent")
    node, host = run.first_node()
    slurm.call("sbatch", "--partition=urgent", f"--nodelist={host}", "--cpus-per-task=2", "--wrap=sleep 5")
    run.until(lambda: run.events(NodeNoticed), "no notice")
    assert run.finish() == 0
    (notice,) = run.events(NodeNoticed)
    assert notice.node == node
    assert 0.0 < notice.until_s - notice.at_s <= 21.0


def test_a_job_whose_time_limit_comes_near_is_left_in_time(slurm: SlurmRig, start: Start) -> None:
    run = start(120)
    node, _ = run.first_node()
    used_s = parse_time(slurm.call("squeue", "--noheader", f"--jobs={node}", "--format=%M"))
    assert used_s is not None
    minutes = 2 + int(used_s / 60)
    slurm.call("scontrol", "update", f"JobId={node}", f"TimeLimit={minutes}")
    run.until(lambda: run.events(NodeNoticed), "no notice")
    assert run.finish() == 0
    assert [notice.node for notice in run.events(NodeNoticed)] == [node]


@pytest.mark.parametrize("verb", ["requeue", "suspend"])
def test_a_job_that_is_queued_again_or_suspended_is_lost_and_another_comes(
    verb: str, slurm: SlurmRig, start: Start
) -> None:
    """Unless somebody allows it, Slurm does not queue jobs of a run again."""
    run = start(30)
    node, _ = run.first_node()
    if verb == "requeue":
        slurm.call("scontrol", "requeue", node, is_checked=False)
        slurm.call("scontrol", "update", f"JobId={node}", "Requeue=1")
    slurm.call("scontrol", verb, node)
    run.until(lambda: run.events(NodeLost), "not lost")
    assert run.finish() > 0
    assert [lost.node for lost in run.events(NodeLost)] == [node]
    assert len({each for granted in run.events(NodesGranted) for each in granted.nodes}) == 3


def test_head_and_nodes_listen_in_the_range_of_ports(start: Start, tmp_path: Path) -> None:
    """Two nodes on one machine, as jobs that share it."""
    first = 30000 + os.getpid() % 90 * 100
    run = start(8, ports=[first, first + 99])
    run.first_node()
    (spec,) = (tmp_path / "jobs").glob("*/node.json")
    port = int(json.loads(spec.read_text())["head"].rpartition(":")[2])
    assert first <= port < first + 100
    rows = [row for name in ("tcp", "tcp6") for row in Path("/proc/net", name).read_text().splitlines()]
    listening = {row.split()[1] for row in rows if row.split()[3] == "0A"}
    heard = {int(each.rpartition(":")[2], 16) for each in listening}
    assert len([each for each in heard if first <= each < first + 100]) >= 3 * (1 + TRIALS)
    assert run.finish() == 0


def test_jobs_that_reach_their_time_limit_follow_one_another(slurm: SlurmRig, start: Start) -> None:
    """The partition allows a minute; the run needs more. Each node is left before Slurm ends it."""
    run = start(45, partition="short", notice="25s")
    assert run.finish() == 0
    assert len(run.events(NodeNoticed)) >= TRIALS
    granted = {node for event in run.events(NodesGranted) for node in event.nodes}
    assert len(granted) >= 2 * TRIALS


class HalvingRun(ClusterRun):
    """Four trials on four nodes, then two on two, then one on one."""

    def __init__(self, slurm: SlurmRig, folder: Path) -> None:
        self.slurm = slurm
        options = {"folder": str(folder / "jobs"), "lost_head_after": "10s", "price_per_node_hour": 1.0}
        cluster = {
            "provider": "slurm",
            "max_nodes": 4,
            "slots_per_node": 1,
            "options": options,
            "init": "10s",
        }
        search = {"algorithm": "sha", "trials": 4, "min_iterations": 10, "max_iterations": 40, "eta": 2}
        super().__init__(
            folder,
            {**cluster, "nodes": None, "price_per_hour": None},
            1.0,
            search={**search, "max_slots_per_trial": 1},
            profile={"iteration": "1s", "startup": "0.5s", "save": "0.1s"},
            checkpoint_every="2s",
            budget="$0.08",
            may_exceed="budget",
        )

    def job(self, cluster: Mapping[str, Any], store: str) -> dict[str, Any]:
        made = super().job(cluster, store)
        made["cluster"] = {key: value for key, value in made["cluster"].items() if value is not None}
        return made

    def running(self) -> list[str]:
        listed = self.slurm.call("squeue", "--array", "--states=RUNNING", "--noheader", "--format=%i")
        return listed.split()

    def nodes_of_tasks(self) -> int:
        """How many processes trained so far."""
        return len({path.name for path in self.traces.iterdir()})


def test_a_run_follows_its_plan_and_outlives_a_lost_node_and_its_driver(
    slurm: SlurmRig, tmp_path: Path
) -> None:
    """It shrinks with the plan, replaces a node that is cancelled, and is resumed after `kill -9`, when its
    jobs have ended by themselves."""
    run = HalvingRun(slurm, tmp_path)
    run.start()
    try:
        run.until(lambda: run.nodes_of_tasks() == 4, "four trials do not train")
        slurm.call("scancel", min(run.running()))
        run.until(lambda: run.events(NodeLost), "not lost")
        run.until(lambda: len(run.running()) == 4, "not replaced")
        run.until(lambda: 0 < len(run.running()) <= 2, "not shrunk")
        run.process.kill()
        run.process.wait()
        wait_until(lambda: not slurm.jobs(), lambda: slurm.call("squeue"))
        run.resume()
        result = run.result()
    finally:
        run.stop()
    assert result["ending"] == "complete", run.said()
    assert result["farewell"]["left"] == []
    assert slurm.jobs() == []
    assert result["phases"] == {"stopped": 3, "finished": 1}
