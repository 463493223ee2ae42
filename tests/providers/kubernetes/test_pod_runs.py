"""A whole run as docs/kubernetes.md says, on the stand-in for the API server and real nodes of Ray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from elastune.core.events import NodeLost, NodesGranted
from tests.clouds.hypervisor import Head, ray_head
from tests.hosts.cluster_run import ClusterRun, assert_same_as_here
from tests.providers.kubernetes.pod_machines import PodMachines
from tests.providers.kubernetes.stand_in import CLUSTER, GROUP, TOKEN, StandIn, serving
from tests.providers.kubernetes.test_access import write_config

pytestmark = pytest.mark.slow  # nodes of Ray boot


class PodRun(ClusterRun):
    def __init__(self, folder: Path, head: Head) -> None:
        options = {"cluster": CLUSTER, "group": GROUP, "ray": head.address, "price_per_node_hour": 1.0}
        cluster = {"provider": "kubernetes", "max_nodes": 3, "options": options}
        super().__init__(folder, cluster, 1.0, checkpoint_every="1s")

    def job(self, cluster: Mapping[str, Any], store: str) -> dict[str, Any]:
        made = super().job(cluster, store)
        if cluster["provider"] == "local":
            return made
        for key in ("nodes", "price_per_hour"):
            del made["cluster"][key]
        return made


@pytest.fixture
def pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[StandIn, Head]]:
    stand_in = StandIn(network="127.0.1.")
    config = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.setenv("ELASTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRACES", str(tmp_path / "traces"))  # of the pods
    with serving(stand_in) as address, ray_head() as head:
        write_config(config, address, {"token": TOKEN})
        for name, value in head.environment.items():
            monkeypatch.setenv(name, value)
        with PodMachines(stand_in, head, cpus=1).running():
            yield stand_in, head


def test_a_run_outlives_a_lost_pod_and_its_driver(pods: tuple[StandIn, Head], tmp_path: Path) -> None:
    """Gangs of two workers over two pods. A pod fails, and its driver is killed and resumed."""
    stand_in, head = pods
    run = PodRun(tmp_path, head)
    run.start()
    try:
        run.until(lambda: len(run.marks()) > 2, "nothing trains")
        stand_in.lose(stand_in.alive()[0])
        run.until(lambda: run.events(NodeLost), "not lost")
        run.until(lambda: len(run.events(NodesGranted)) > 1, "not replaced")
        run.process.kill()
        run.process.wait()
        run.resume()
        result = run.result()
    finally:
        run.stop()
    assert result["ending"] == "complete", run.said()
    assert result["farewell"]["left"] == []
    assert stand_in.alive() == []
    assert (stand_in.group["replicas"], stand_in.annotations) == (0, {})
    assert stand_in.deleted_at_random == []
    assert len(stand_in.alive("users-own")) == 2
    assert_same_as_here(run, result)
