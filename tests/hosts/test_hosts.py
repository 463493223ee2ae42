"""Runs over hosts with addresses of their own: gangs, a cut link, a slow link. The hosts are namespaces."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.hosts.cluster_run import ClusterRun
from tests.hosts.rig import Hosts, several_hosts
from tests.waiting import wait_until


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with several_hosts() as made:
        yield made


class HostsRun(ClusterRun):
    """A run whose driver is on the first host."""

    def __init__(self, hosts: Hosts, folder: Path, pause: float = 0.1, **changes: Any) -> None:
        self.hosts = hosts
        setup = [f"export TRACES={folder / 'traces'}"]
        options = {**hosts.options, "setup": setup, "lost_head_after": "15s"}
        super().__init__(folder, {"provider": "ssh", "options": options}, pause, **changes)

    def launch(self, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        traces = {"TRACES": str(self.traces)}
        return self.hosts.popen("h1", *command, log=self.folder / "run.log", env=traces)


@pytest.mark.slow
def test_gangs_over_three_hosts_learn_what_they_learn_on_one(hosts: Hosts, tmp_path: Path) -> None:
    """Over links with 20 ms and 1 Gbit/s, where the kernel can slow them."""
    for name in hosts.names:
        hosts.slow(name, "delay", "10ms", "rate", "1gbit")
    run = HostsRun(hosts, tmp_path)
    run.start()
    there = run.result()
    assert {mark[0] for mark in run.marks()} == set(hosts.names)
    job = tmp_path / "local.yaml"
    job.write_text(yaml.safe_dump(run.job({"provider": "local"}, "local")), encoding="utf-8")
    command = [sys.executable, "-m", "elastune", "run", str(job), "--yes", "--no-check", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    here = json.loads(done.stdout)
    assert there["best"]["trial"] == here["best"]["trial"]
    assert np.array_equal(run.weights("store", there), run.weights("local", here))


@pytest.mark.slow
def test_a_link_that_is_cut_for_a_while_loses_no_result(hosts: Hosts, tmp_path: Path) -> None:
    """The host lives and cannot be reached: its node ends itself, and its trials go on elsewhere."""
    run = HostsRun(hosts, tmp_path, pause=2.0)
    process = run.start()
    run.until(lambda: len(run.marks()) > 4, "no iteration")
    hosts.cut("h3")
    wait_until(lambda: "lost" in run.said() or "gone" in run.said() or process.poll() is not None, run.said)
    hosts.mend("h3")
    result = run.result()
    assert result["ending"] == "complete"
    assert result["best"]["iterations"] == 12


def test_a_host_reaches_the_others_until_its_link_is_cut(hosts: Hosts) -> None:
    reach = hosts.command(
        "h1", "bash", "-c", f"timeout 2 bash -c ': <>/dev/tcp/10.77.0.3/{hosts.server.port}'"
    )
    wait_until(lambda: subprocess.run(reach, check=False, capture_output=True).returncode == 0)
    hosts.cut("h3")
    assert subprocess.run(reach, check=False, capture_output=True).returncode != 0
    hosts.mend("h3")
    wait_until(lambda: subprocess.run(reach, check=False, capture_output=True).returncode == 0)
