"""The program on another machine: its lease, and how it ends without a head."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from elastune.providers.remote.node import ENDED, UNREACHABLE, LeaseClock, NodeSpec, address_towards
from tests.providers.remote.nodes import start_node

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def lease(number: int, left_s: float, wall: float) -> bytes:
    return json.dumps({"number": number, "left_s": left_s, "wall": wall}).encode()


def test_a_lease_is_counted_by_the_own_clock() -> None:
    """The clock of the driver is hours ahead, which does not matter."""
    clock = LeaseClock(100.0, 60.0)
    assert clock.until == 160.0
    clock.read(lease(1, 300.0, 9000.0), 110.0, 2000.0)
    assert (clock.until, clock.ahead_s) == (410.0, 7000.0)


def test_a_lease_that_is_not_written_again_passes() -> None:
    clock = LeaseClock(0.0, 10.0)
    text = lease(1, 300.0, 0.0)
    for now in range(0, 1000, 100):
        clock.read(text, float(now), 0.0)
    assert clock.until == 300.0


def test_a_lease_may_be_shortened() -> None:
    clock = LeaseClock(0.0, 10.0)
    clock.read(lease(1, 300.0, 0.0), 0.0, 0.0)
    clock.read(lease(2, 20.0, 0.0), 5.0, 0.0)
    assert clock.until == 25.0
    clock.read(None, 6.0, 0.0)
    assert clock.until == 25.0


def test_a_spec_is_what_was_written() -> None:
    spec = NodeSpec(head="10.0.0.1:5", token="t", node="", cpus=2, gpus=1, ports=(20000, 20999))
    assert NodeSpec.decode(spec.encode()) == spec
    assert NodeSpec.decode(spec.encode(), node="7_1").node == "7_1"


def test_the_own_address_is_that_towards_the_head() -> None:
    assert address_towards("127.0.0.7:1234") == "127.0.0.7"


def said(process: subprocess.Popen[bytes]) -> str:
    with process:
        assert process.stdout is not None
        return process.stdout.read().decode()


def test_a_node_without_a_head_ends_at_once() -> None:
    """The run of a job that waited in a queue is over."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        head = f"127.0.0.1:{free.getsockname()[1]}"
    process = start_node(head)
    assert "does not answer; its run may have ended" in said(process)
    assert process.returncode == UNREACHABLE


@pytest.mark.parametrize("is_closed", [False, True], ids=["told", "lost"])
def test_a_node_whose_head_dies_while_it_joins_ends(is_closed: bool) -> None:
    """Ray waits for a head that accepts connections and says nothing; it hears neither signals nor pipes."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        process = start_node(f"127.0.0.1:{head.getsockname()[1]}", lost_head_s=1.0)
        assert process.stdout is not None
        assert b"joining" in process.stdout.readline()
        if not is_closed:
            process.terminate()
            assert "told to end" in said(process)
    if is_closed:
        assert "cannot be reached" in said(process)
    assert process.returncode == (UNREACHABLE if is_closed else ENDED)
