"""When the driver gives a node up because it hears nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from elastune.model.ids import NodeId
from elastune.runtime.ray import fleet
from elastune.runtime.ray.fleet import NodeFleet
from elastune.runtime.ray.node_connections import SlotShare

NODE = NodeId("n1")


class Connection:
    """To a node that says nothing."""

    def __init__(self, offset: float | None) -> None:
        self.node, self.agent, self.offset = NODE, None, offset
        self.heard: float | None = 0.0
        self.is_stopped = False

    def send(self, orders: Any) -> None:
        raise AssertionError(orders)

    def listen(self) -> None:
        raise AssertionError

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def silent_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[Connection, int], bool]:
    """Whether the node is given up within so many seconds, in each of which the driver looks."""
    now = [0.0]
    # Not of the module `time` itself: servers in other threads read the clock, too.
    monkeypatch.setattr(fleet, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def wait(connection: Connection, seconds: int) -> bool:
        nodes = NodeFleet(SlotShare(slots=1, cpus=1.0, gpus=0.0))
        nodes._connections[NODE] = connection
        for now[0] in range(seconds):
            if any(dispatch.news is None for dispatch in nodes.receive(0.0)):
                return connection.is_stopped
        return False

    return wait


def test_a_node_that_falls_silent_is_given_up(silent_for: Callable[[Connection, int], bool]) -> None:
    assert not silent_for(Connection(offset=0.5), 90)
    assert silent_for(Connection(offset=0.5), 120)


def test_an_agent_that_ray_still_starts_has_more_time(silent_for: Callable[[Connection, int], bool]) -> None:
    assert not silent_for(Connection(offset=None), 590)
    assert silent_for(Connection(offset=None), 620)
