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

from elastune.checkpoints.store import load_checkpoint
from tests.hosts.rig import Hosts, several_hosts
from tests.waiting import SLOW_BOOT_S, wait_until

TRAINING = f"{Path(__file__).with_name('training.py')}:train"


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with several_hosts() as made:
        yield made


class HostsRun:
    """A run whose driver is on the first host."""

    def __init__(self, hosts: Hosts, folder: Path, **changes: Any) -> None:
        self.hosts = hosts
        self.folder = folder
        self.traces = folder / "traces"
        self.traces.mkdir()
        options = {**hosts.options, "setup": [f"export TRACES={self.traces}"], "lost_head_after": "15s"}
        self.cluster: dict[str, Any] = {"provider": "ssh", "options": options}
        self.changes = changes

    def job(self, cluster: dict[str, Any], store: str) -> dict[str, Any]:
        search = {"algorithm": "sha", "trials": 4, "min_iterations": 3, "max_iterations": 12, "eta": 2}
        return {
            "name": "hosts",
            "trainable": TRAINING,
            "metric": "score",
            "mode": "max",
            "space": {"x": {"float": [0.05, 0.5]}, "pause": {"choice": [self.changes.get("pause", 0.1)]}},
            "seed": 3,
            "search": {**search, "min_slots_per_trial": 2, "max_slots_per_trial": 2},
            "profile": {"iteration": "1s", "startup": "5s", "save": "0.1s"},
            "checkpoint_every": "1s",
            "slot": {"cpus": 1},
            "storage": str(self.folder / store),
            "cluster": {
                "slots_per_node": 1,
                "nodes": 3,
                "price_per_hour": 0,
                "init": f"{SLOW_BOOT_S:.0f}s",
                **cluster,
            },
        }

    def start(self) -> subprocess.Popen[bytes]:
        job = self.folder / "job.yaml"
        job.write_text(yaml.safe_dump(self.job(self.cluster, "store")), encoding="utf-8")
        command = (sys.executable, "-m", "elastune", "run", str(job), "--yes", "--no-check", "--json")
        runs = ("--runs-folder", str(self.folder / "runs"))
        return self.hosts.popen(
            "h1", *command, *runs, log=self.folder / "run.log", env={"TRACES": str(self.traces)}
        )

    def result(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        wait_until(lambda: process.poll() is not None, self.said)
        assert process.returncode == 0, self.said()
        text = self.said()
        found: dict[str, Any] = json.loads(text[text.index("\n{") if "\n{" in text else text.index("{") :])
        return found

    def said(self) -> str:
        return (self.folder / "run.log").read_text(errors="replace")

    def marks(self) -> list[list[str]]:
        """Host, iteration, rank and size of every iteration of every worker."""
        return [line.split() for path in self.traces.iterdir() for line in path.read_text().splitlines()]


def weights_of(store: Path, result: dict[str, Any]) -> Any:
    best = result["best"]
    (path,) = store.glob(f"*/trial-{best['trial']:05}/iteration-{best['iterations']:06}.ckpt")
    return np.asarray(load_checkpoint(path)["weights"])


@pytest.mark.slow
def test_gangs_over_three_hosts_learn_what_they_learn_on_one(hosts: Hosts, tmp_path: Path) -> None:
    """Over links with 20 ms and 1 Gbit/s, where the kernel can slow them."""
    for name in hosts.names:
        hosts.slow(name, "delay", "10ms", "rate", "1gbit")
    run = HostsRun(hosts, tmp_path)
    there = run.result(run.start())
    assert {mark[0] for mark in run.marks()} == set(hosts.names)
    job = tmp_path / "local.yaml"
    job.write_text(yaml.safe_dump(run.job({"provider": "local"}, "local")), encoding="utf-8")
    command = [sys.executable, "-m", "elastune", "run", str(job), "--yes", "--no-check", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    here = json.loads(done.stdout)
    assert there["best"]["trial"] == here["best"]["trial"]
    assert np.array_equal(weights_of(tmp_path / "store", there), weights_of(tmp_path / "local", here))


@pytest.mark.slow
def test_a_link_that_is_cut_for_a_while_loses_no_result(hosts: Hosts, tmp_path: Path) -> None:
    """The host lives and cannot be reached: its node ends itself, and its trials go on elsewhere."""
    run = HostsRun(hosts, tmp_path, pause=2.0)
    process = run.start()
    wait_until(lambda: len(run.marks()) > 4 or process.poll() is not None, run.said)
    hosts.cut("h3")
    wait_until(lambda: "lost" in run.said() or "gone" in run.said() or process.poll() is not None, run.said)
    hosts.mend("h3")
    result = run.result(process)
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
