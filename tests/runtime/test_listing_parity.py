"""A provider's listing means the same to both runtimes: one cloud, watched by each of them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from elastune.core.events import NodeLost, NodesReady
from elastune.providers.simulated import SimulatedProvider
from elastune.providers.simulated_faults import NodeFaults
from elastune.providers.watcher import NodeEvent
from elastune.runtime.ray.fleet import ProviderNodes
from elastune.runtime.simulated.cloud import Faults, SimulatedCloud
from tests.providers.clouds import Clock, terms

FAULTS = NodeFaults(lost_per_hour=20.0, noticed_per_hour=20.0, notice_s=30.0, refused=0.3, dearer=0.5)


def simulated(seed: int) -> list[NodeEvent]:
    clock = Clock()
    cloud = SimulatedCloud(terms(), seed=seed, faults=Faults(nodes=FAULTS), run_clock=clock)
    cloud.request(1, 5)
    cloud.request(2, 3)
    events: list[NodeEvent] = []
    while (at_s := cloud.next_news_s()) is not None:
        clock.now_s = at_s
        events += cloud.look()
    return [event for event in events if not isinstance(event, NodesReady)]


def real(seed: int) -> list[NodeEvent]:
    """Readiness is left out: there a node is ready when its processes are."""
    clock = Clock()
    provider = SimulatedProvider(terms(), seed=seed, clock=clock, faults=FAULTS)
    machines = ProviderNodes(cast("Any", provider), clock)
    machines.request(1, 5)
    machines.request(2, 3)
    events: list[NodeEvent] = []
    while (at_s := provider.next_change_s()) is not None:
        clock.now_s = at_s
        machines._next_s = at_s  # it need not wait for its next look
        events += machines.look()
    return events


@pytest.mark.parametrize("seed", range(5))
def test_both_runtimes_tell_the_same_of_the_same_machines(seed: int) -> None:
    events = simulated(seed)
    assert events == real(seed)
    assert any(isinstance(event, NodeLost) for event in events)


def test_a_lost_node_is_billed_as_its_provider_says() -> None:
    """Which saw the end of it as it came, whenever a driver looks."""
    clock = Clock()
    cloud = SimulatedCloud(terms(), seed=0, faults=Faults(nodes=FAULTS), run_clock=clock)
    cloud.request(1, 1)
    while cloud.provider.next_change_s() is not None and not cloud.provider.live():
        clock.now_s = cloud.provider.next_change_s() or clock.now_s
    clock.now_s += 100_000.0
    (lost,) = (event for event in cloud.look() if isinstance(event, NodeLost))
    assert lost.billed_s == cloud.provider.billed_s(lost.node)
    assert lost.billed_s is not None
    assert lost.billed_s < 100_000.0
