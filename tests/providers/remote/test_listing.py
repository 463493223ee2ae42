"""What a machine knows about the nodes of runs on it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from elastune.providers.local.processes import NODE, tagged
from elastune.providers.remote.listing import end_nodes, present_nodes, registered_nodes
from tests.providers.remote.nodes import start_node
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def node() -> Iterator[subprocess.Popen[bytes]]:
    """It joins a head that says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        with start_node(address, node="n1-listed", run="ab12", job="a job") as process:
            yield process
            process.kill()


def listed(run: str = "ab12") -> list[str]:
    return [each.node for each in present_nodes() if each.run == run]


def test_a_node_is_listed_with_its_run_and_its_lease(node: subprocess.Popen[bytes]) -> None:
    wait_until(listed)
    (found,) = [each for each in present_nodes() if each.run == "ab12"]
    assert (found.node, found.job) == ("n1-listed", "a job")
    assert found.left_s is not None
    assert 0.0 < found.left_s <= 300.0
    assert 0.0 <= found.age_s < 900.0


def test_a_node_that_is_ended_is_not_listed_any_more(node: subprocess.Popen[bytes]) -> None:
    wait_until(listed)
    end_nodes(["n1-listed", "never-was"])
    assert node.wait() == 0
    assert listed() == []


def test_what_a_killed_node_leaves_is_listed_and_ended(node: subprocess.Popen[bytes]) -> None:
    """A program that was killed cannot end what it started."""
    wait_until(listed)
    (tag,) = [entry.tag for _, entry in registered_nodes() if entry.pid == node.pid]
    left = subprocess.Popen(["sleep", "600"], env={NODE: tag}, start_new_session=True)
    node.kill()
    node.wait()
    (found,) = [each for each in present_nodes() if each.run == "ab12"]
    assert found.left_s is None
    end_nodes([found.node])
    left.wait()
    assert (listed(), tagged(NODE, tag)) == ([], ())


def test_a_folder_without_any_process_is_forgotten(node: subprocess.Popen[bytes]) -> None:
    wait_until(listed)
    node.kill()
    node.wait()
    assert listed() == []
