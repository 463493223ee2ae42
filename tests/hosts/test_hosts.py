"""Runs over hosts with addresses of their own: gangs, a cut link, a slow link. The hosts are namespaces."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elastune.checkpoints.store import load_checkpoint
from elastune.core.events import GangStarted, NodeLost, NodesGranted, VisitEnded
from tests.hosts.cluster_run import ClusterRun, assert_same_as_here
from tests.hosts.rig import Hosts, several_hosts
from tests.runtime.real.hoppers import data_of, digest_of, sections, watch_journal, write_data
from tests.waiting import wait_until

CUT_S = 30.0


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with several_hosts() as made:
        yield made


class HostsRun(ClusterRun):
    """A run whose driver is on the first host."""

    def __init__(self, hosts: Hosts, folder: Path, pause: float = 0.1, **changes: Any) -> None:
        self.hosts = hosts
        setup = [f"export TRACES={folder / 'traces'} PYTHONPATH={':'.join(filter(None, sys.path))}"]
        self.options: dict[str, Any] = {**hosts.options, "setup": setup, "lost_head_after": "15s"}
        super().__init__(folder, {"provider": "ssh", "options": self.options}, pause, **changes)

    def launch(self, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        traces = {"TRACES": str(self.traces)}
        return self.hosts.popen("h1", *command, log=self.folder / "run.log", env=traces)


@pytest.fixture
def far_hosts(hosts: Hosts) -> Hosts:
    """20 ms and 1 Gbit/s between them."""
    hosts.slow(delay_s=0.01, bits_per_s=1e9)
    return hosts


@pytest.mark.slow
def test_gangs_over_three_hosts_learn_what_they_learn_on_one(far_hosts: Hosts, tmp_path: Path) -> None:
    run = HostsRun(far_hosts, tmp_path)
    run.start()
    there = run.result()
    assert {mark[0] for mark in run.marks()} == set(far_hosts.names)
    assert_same_as_here(run, there)


@pytest.mark.slow
def test_a_link_that_is_cut_for_half_a_minute_loses_no_result(far_hosts: Hosts, tmp_path: Path) -> None:
    """The host lives and cannot be reached: its node ends itself, and its trials go on elsewhere, from a
    checkpoint that is at most one interval old. Scores get worse: there are no saves but the regular ones."""
    run = HostsRun(far_hosts, tmp_path, pause=1.0, checkpoint_every="5s", mode="min")
    run.start()
    run.until(lambda: any(mark[0] == "h3" and int(mark[1]) > 1 for mark in run.marks()), "h3 does not train")
    far_hosts.cut("h3")
    since = time.monotonic()
    run.until(lambda: run.events(NodeLost), "the node is not given up")
    time.sleep(max(0.0, CUT_S - (time.monotonic() - since)))
    far_hosts.mend("h3")
    there = run.result()
    assert there["ending"] == "complete"
    assert max(event.repeated for event in run.events(GangStarted)) <= 5 + 1
    assert_same_as_here(run, there)


WRONG_CLOCK = """
import os, socket, time

shift_s = {"h2": 300.0, "h3": -600.0}.get(socket.gethostname(), 0.0)
real = time.time
time.time = lambda: real() + shift_s
time.time_ns = lambda: int(time.time() * 1e9)
"""


@pytest.mark.slow
def test_clocks_of_hosts_may_differ_by_minutes(hosts: Hosts, tmp_path: Path) -> None:
    """One is five minutes ahead, another ten behind: of all Python processes, ours and Ray's. (Programs that
    fake the clock of other processes, too, break their waiting.) Leases are counted by each one's own."""
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(WRONG_CLOCK)
    run = HostsRun(hosts, tmp_path)
    run.options["setup"].append(f"export PYTHONPATH={tmp_path / 'clock'}:$PYTHONPATH")
    run.start()
    there = run.result()
    assert {mark[0] for mark in run.marks()} == set(hosts.names)
    assert_same_as_here(run, there)


@pytest.mark.slow
def test_models_hop_between_hosts(far_hosts: Hosts, tmp_path: Path) -> None:
    """Models of 20 MB, which take 0.2 s; every state is what its way over the partitions made of it."""
    data = write_data(tmp_path / "data")
    job = sections(data, space={"ballast": {"choice": [2_500_000]}})
    del job["cluster"]
    run = HostsRun(far_hosts, tmp_path, slot={"cpus": 1}, checkpoint_every=None, **job)
    run.start()
    there = run.result()
    assert there["ending"] == "complete"
    (folder,) = (tmp_path / "runs").glob("*/journal.sqlite")
    watch = watch_journal(folder.parent)
    best = there["best"]
    digest = digest_of(watch, best["trial"], best["config"]["x"], data_of(data), best["iterations"])
    assert load_checkpoint(Path(best["checkpoint"]))["digest"] == digest
    visits = run.events(VisitEnded)
    assert sum(visit.hopped for visit in visits) > 3
    assert min(visit.model_bytes for visit in visits) > 20_000_000
    granted = {node for event in run.events(NodesGranted) for node in event.nodes}
    assert len(granted) == 3


def test_a_host_reaches_the_others_until_its_link_is_cut(hosts: Hosts) -> None:
    reach = hosts.command(
        "h1", "bash", "-c", f"timeout 2 bash -c ': <>/dev/tcp/10.77.0.3/{hosts.server.port}'"
    )
    wait_until(lambda: subprocess.run(reach, check=False, capture_output=True).returncode == 0)
    hosts.cut("h3")
    assert subprocess.run(reach, check=False, capture_output=True).returncode != 0
    hosts.mend("h3")
    wait_until(lambda: subprocess.run(reach, check=False, capture_output=True).returncode == 0)
