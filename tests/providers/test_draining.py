"""Ray nodes under notice: how a driver hears of them, and what the attached provider makes of it."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from elastune.core.events import NodeNoticed
from elastune.model.cluster import ClusterTerms
from elastune.providers import attached
from elastune.providers.attached import AttachedProvider
from elastune.providers.local.provider import LocalProvider
from elastune.providers.protocol import MachineState, ProviderSetting
from elastune.providers.ray_cluster import draining_nodes, noticed_nodes, ray_nodes_by_instance
from elastune.providers.watcher import Watcher
from tests.providers.contract import nodes, status
from tests.waiting import PATIENCE_S, wait_until

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the local provider looks into /proc"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's sockets
]


_POOLS = itertools.count()


def setting() -> ProviderSetting:
    terms = ClusterTerms(slots_per_node=2, max_nodes=4, price_per_hour=36.0)
    return ProviderSetting(run="r", terms=terms, clock=time.monotonic)


@pytest.fixture(scope="module")
def fleet() -> Iterator[LocalProvider]:
    with LocalProvider(setting()) as made:
        yield made


@pytest.fixture
def cluster(fleet: LocalProvider) -> LocalProvider:
    """With two nodes that no other test has seen."""
    fleet.release([machine.node for machine in fleet.survey().machines])
    wait_until(lambda: sum(node["Alive"] for node in ray.nodes()) == 1)  # the head
    fleet.request(f"pool-{next(_POOLS)}", 2)
    wait_until(lambda: sum(each.state is MachineState.READY for each in fleet.survey().machines) == 2)
    return fleet


def occupy(ray_node: str) -> object:
    """A node without work would leave at once."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    class Worker:
        def ping(self) -> bool:
            return True

    where = NodeAffinitySchedulingStrategy(ray_node, soft=False)
    worker = ray.remote(num_cpus=2)(Worker).options(scheduling_strategy=where).remote()
    assert ray.get(worker.ping.remote())
    return worker


def drain(cluster: LocalProvider, ray_node: str, *, in_s: int | None) -> None:
    """As the watchdog of a node does it."""
    deadline = [] if in_s is None else [f"--deadline-remaining-seconds={in_s}"]
    command = f"-m ray.scripts.scripts drain-node --address={cluster.address} --node-id={ray_node}"
    reason = ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=the spot market wants it"]
    subprocess.run([sys.executable, *command.split(), *reason, *deadline], timeout=PATIENCE_S, check=True)


def test_a_drained_node_is_under_notice_and_not_granted_again(
    cluster: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached, "_FRESH_S", 0.0)  # every survey looks at the cluster
    provider = AttachedProvider(setting(), "auto")
    provider.open()
    watcher = Watcher()
    provider.request(watcher.expect(1), 2)
    watcher.observe(provider.survey())
    taken, kept = nodes(provider.survey())
    ray_node = provider.ray_node(taken)
    assert ray_node is not None
    worker = occupy(ray_node)
    assert draining_nodes() == {}

    before_s, asked = time.monotonic(), time.time()
    drain(cluster, ray_node, in_s=100)
    (deadline,) = draining_nodes().values()
    assert asked + 100 <= deadline + 0.001 <= time.time() + 101

    (noticed,) = watcher.observe(provider.survey())
    assert isinstance(noticed, NodeNoticed)
    assert noticed.node == taken
    assert before_s + 100 <= noticed.until_s + 0.1 <= time.monotonic() + 101.1
    assert watcher.observe(provider.survey()) == ()  # the first reading stays

    provider.release([taken, kept])
    provider.request("b", 2)
    answer = status(provider.survey(), "b")
    assert (len(answer.granted), answer.refused) == (1, 1)
    assert answer.reason == "the Ray cluster has 1 nodes of at least 2 CPUs, 0 of them taken"
    assert [provider.ray_node(node) for node in answer.granted] != [ray_node]
    del worker


def test_a_node_that_is_drained_without_a_time_may_go_at_once(cluster: LocalProvider) -> None:
    (first, _) = (cluster.ray_node(machine.node) for machine in cluster.survey().machines)
    assert first is not None
    worker = occupy(first)
    drain(cluster, first, in_s=None)
    assert draining_nodes() == {first: 0.0}
    assert noticed_nodes(1234.5) == {first: 1234.5}
    del worker


def test_nodes_that_are_no_instances_are_none(fleet: LocalProvider) -> None:
    assert ray_nodes_by_instance() == {}
