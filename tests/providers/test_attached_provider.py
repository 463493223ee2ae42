"""An existing Ray cluster as a pool. The cluster here is a local fleet: a head, and four nodes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from elastune.errors import ExecutionError, InvariantError
from elastune.model.cluster import ClusterTerms
from elastune.model.ids import NodeId
from elastune.providers.attached import AttachedProvider
from elastune.providers.local.processes import NODE, tagged
from elastune.providers.local.provider import LocalProvider
from elastune.providers.protocol import MachineState, Provider, ProviderSetting, Survey
from elastune.providers.ray_cluster import refuse_unreachable
from tests.providers.contract import ProviderContract, nodes, status
from tests.waiting import PATIENCE_S, wait_until

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's sockets
]


def setting(*, max_nodes: int = 4, slots_per_node: int = 2) -> ProviderSetting:
    terms = ClusterTerms(slots_per_node=slots_per_node, max_nodes=max_nodes, price_per_hour=36.0)
    return ProviderSetting(run="r", terms=terms, clock=time.monotonic)


def attached(*, room: int = 4, slots_per_node: int = 2, slot_gpus: int = 0) -> AttachedProvider:
    chosen = setting(max_nodes=room, slots_per_node=slots_per_node)
    provider = AttachedProvider(chosen, "auto", slot_gpus=slot_gpus)
    provider.open()
    return provider


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalProvider]:
    with LocalProvider(setting()) as fleet:
        fleet.request("pool", 4)
        wait_until(
            lambda: sum(machine.state is MachineState.READY for machine in fleet.survey().machines) == 4
        )
        yield fleet


class AttachedStage:
    def provider(self, *, room: int = 4) -> Provider:
        return attached(room=room)

    def reopen(self, provider: Provider) -> Provider:
        return self.provider()

    def settle(self, provider: Provider) -> Survey:
        return provider.survey()


class TestContract(ProviderContract):
    @pytest.fixture
    def stage(self, cluster: LocalProvider) -> AttachedStage:
        return AttachedStage()

    def test_a_new_driver_finds_what_the_old_one_left(self, stage: Any) -> None:
        """Which is nothing: who has what is known to the driver alone. The names are new."""
        provider = stage.provider()
        provider.request("a", 2)
        left = nodes(provider.survey())
        reopened = stage.reopen(provider)
        assert reopened.survey().machines == ()
        reopened.request("a", 2)
        assert not set(nodes(reopened.survey())) & set(left)


def test_it_grants_the_nodes_that_are_free_and_says_what_there_is(cluster: LocalProvider) -> None:
    provider = attached(room=9)
    provider.request("a", 3)
    provider.request("b", 3)
    answer = status(provider.survey(), "b")
    assert (len(answer.granted), answer.refused) == (1, 2)
    assert answer.reason == "the Ray cluster has 4 nodes of at least 2 CPUs, 3 of them taken"
    assert len({provider.ray_node(node) for node in nodes(provider.survey())}) == 4


def test_nodes_that_are_too_small_do_not_count(cluster: LocalProvider) -> None:
    provider = attached(slots_per_node=2, slot_gpus=1)
    provider.request("a", 1)
    reason = status(provider.survey(), "a").reason
    assert reason == "the Ray cluster has 0 nodes of at least 2 CPUs and 2 GPUs, 0 of them taken"


def test_a_ray_node_that_is_granted_again_has_a_new_name(cluster: LocalProvider) -> None:
    provider = attached(room=4)
    provider.request("a", 4)
    before = nodes(provider.survey())
    of_ray = {provider.ray_node(node) for node in before}
    provider.release(before[:1])
    assert provider.ray_node(before[0]) is None
    provider.request("b", 1)
    (again,) = status(provider.survey(), "b").granted
    assert again not in before
    assert {provider.ray_node(node) for node in nodes(provider.survey())} == of_ray


def test_a_ray_node_that_dies_is_gone(cluster: LocalProvider) -> None:
    provider = attached(room=4)
    provider.request("a", 4)
    granted = nodes(provider.survey())
    victim = next(machine.node for machine in cluster.survey().machines)
    (lost,) = [node for node in granted if provider.ray_node(node) == cluster.ray_node(victim)]
    os.kill(min(tagged(NODE, victim)), signal.SIGTERM)
    wait_until(lambda: lost not in nodes(provider.survey()))
    assert nodes(provider.survey()) == [node for node in granted if node != lost]
    assert provider.ray_node(lost) is None
    cluster.request("spare", 1)


def test_it_disconnects_only_what_it_connected(cluster: LocalProvider) -> None:
    provider = attached()
    provider.close()
    provider.close()
    assert ray.is_initialized()
    with pytest.raises(InvariantError, match="is not open"):
        provider.request("a", 1)
    script = f"""
import time
import ray
from elastune.model.cluster import ClusterTerms
from elastune.providers.protocol import ProviderSetting
from elastune.providers.attached import AttachedProvider
terms = ClusterTerms(slots_per_node=2, max_nodes=4, price_per_hour=36.0)
setting = ProviderSetting(run="r", terms=terms, clock=time.monotonic)
with AttachedProvider(setting, {cluster.address!r}) as provider:
    provider.request("a", 1)
    print(len(provider.survey().machines), ray.is_initialized())
print(ray.is_initialized())
"""
    assert run_script(script).split() == ["1", "True", "False"]


def run_script(script: str) -> str:
    """In a process of its own: its standard output."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_messages_of_ray_are_logged_and_not_printed(cluster: LocalProvider) -> None:
    """Also the last ones, which come when everything else is closed already."""
    script = f"""
import logging, threading
import ray
from ray._private import worker
from ray._private.utils import publish_error_to_driver
from elastune.providers.ray_cluster import RayMembership
original, logged = worker.print_to_stdstream, threading.Event()

class Handler(logging.Handler):
    def emit(self, record):
        if "a raylet is gone" in record.getMessage():
            logged.set()

logging.getLogger("elastune.ray").addHandler(Handler())
logging.getLogger("elastune.ray").setLevel("INFO")
shutdown = ray.shutdown

def message_and_shutdown():
    # Ray's thread subscribes some time after `ray.init`: what was published before is lost.
    while not logged.wait(0.05):
        publish_error_to_driver("raylet", "a raylet is gone", worker.global_worker.gcs_client)
    shutdown()

ray.shutdown = message_and_shutdown
RayMembership({cluster.address!r}).leave()
print("restored:", worker.print_to_stdstream is original)
"""
    assert run_script(script) == "restored: True\n"


@pytest.mark.parametrize("address", ["nonsense", "ray://127.0.0.1:10001", "127.0.0.1:many"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    assert_refused(address, "cannot be used, expected host:port")


def test_an_address_where_nothing_answers_is_refused() -> None:
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        assert_refused(f"127.0.0.1:{taken.getsockname()[1]}", "nothing answers at")


def assert_refused(address: str, complaint: str) -> None:
    """Before Ray is asked, which would try for minutes."""
    with pytest.raises(ExecutionError, match=complaint):
        refuse_unreachable(address)


def test_the_price_is_what_the_job_says() -> None:
    price = AttachedProvider(setting(), "auto").price()
    assert (price.usd_per_hour, price.source) == (36.0, "job file")


def test_no_process_of_the_cluster_is_its_own(cluster: LocalProvider) -> None:
    provider = attached()
    assert provider.pids == ()
    assert provider.ray_node(NodeId("never-was")) is None
