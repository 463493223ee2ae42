"""`ray start` with more patience than Ray's own."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

pytest.importorskip("ray")

from ray._private import services

from elastune.providers import ray_start
from elastune.providers.ray_start import PATIENCE_S, Registration, patience


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Raylet:
    """A process, and what Ray says of one that it started."""

    code: int | None = None

    @property
    def process(self) -> Raylet:
        return self

    def poll(self) -> int | None:
        return self.code


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ray_start, "time", clock)
    return clock


def registering_after(seconds: float, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(address: str, node: str) -> dict[str, str]:
        if clock.now < seconds:
            raise RuntimeError(f"no node {node} at {address}")
        return {"node": node}

    monkeypatch.setattr(services, "get_node", look)


def test_a_node_that_needs_more_than_rays_half_minute_is_waited_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    registering_after(90.0, clock, monkeypatch)
    assert Registration().look("head:6379", "c0ffee") == {"node": "c0ffee"}
    assert clock.now >= 90.0


def test_a_node_that_never_registers_is_told(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    registering_after(1e9, clock, monkeypatch)
    with pytest.raises(RuntimeError, match="no node c0ffee at head:6379"):
        Registration().look("head:6379", "c0ffee")
    assert PATIENCE_S <= clock.now <= PATIENCE_S + 1


def test_a_node_whose_raylet_has_ended_is_not_waited_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    registering_after(1e9, clock, monkeypatch)
    raylet = Raylet()
    monkeypatch.setattr(services, "start_ray_process", lambda command, kind, **_: raylet)
    registration = Registration()
    assert registration.start(["raylet"], "raylet", fate_share=True) is raylet
    raylet.code = 1
    with pytest.raises(RuntimeError, match="no node"):
        registration.look("head:6379", "c0ffee")
    assert clock.now == 0.0


def test_ray_is_as_before_afterwards() -> None:
    before = services.get_node, services.start_ray_process
    with patience():
        assert services.get_node is not before[0]
    assert (services.get_node, services.start_ray_process) == before
