"""`ray start` with more patience than Ray's own."""

from __future__ import annotations

import pytest

from elastune.providers import ray_start


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


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

    monkeypatch.setattr(ray_start, "_look_once", look)


def test_a_node_that_needs_more_than_rays_half_minute_is_waited_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    registering_after(90.0, clock, monkeypatch)
    assert ray_start.look_patiently("head:6379", "c0ffee") == {"node": "c0ffee"}
    assert clock.now >= 90.0


def test_a_node_that_never_registers_is_told(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    registering_after(1e9, clock, monkeypatch)
    with pytest.raises(RuntimeError, match="no node c0ffee at head:6379"):
        ray_start.look_patiently("head:6379", "c0ffee")
    assert ray_start.PATIENCE_S <= clock.now <= ray_start.PATIENCE_S + 1
