"""A worker group on a stand-in for an API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elastune.providers.kubernetes import broker
from tests.providers.kubernetes.stage import PodStage
from tests.providers.kubernetes.stand_in import StandIn, serving


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn()


@pytest.fixture
def pod_stage(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodStage]:
    monkeypatch.setattr(broker, "_BUSY_LOOK_S", 0.02)
    monkeypatch.setattr(broker, "_LOOK_S", 0.1)
    monkeypatch.setattr(broker, "SPARE_S", 0.2)
    with serving(stand_in) as address:
        made = PodStage(stand_in, address)
        yield made
        made.close()
