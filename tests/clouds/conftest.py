"""One cloud for all tests of a process: its Ray head takes seconds to start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.clouds.land import Land, Project


@pytest.fixture(scope="session")
def land() -> Iterator[Land]:
    if sys.platform != "linux":
        pytest.skip("looks into /proc")
    pytest.importorskip("ray")
    pytest.importorskip("moto.server")
    from tests.clouds.land import whole_land  # noqa: PLC0415 - heavy

    with whole_land() as made:
        yield made


@pytest.fixture
def project(land: Land, tmp_path: Path) -> Iterator[Project]:
    """Of one user. What a test leaves alive, it has not cleaned up itself: that is told, and ended."""
    from tests.clouds.land import Project  # noqa: PLC0415

    made = Project(land, tmp_path / "work")
    yield made
    made.close()
    land.gate.fault = lambda call: None
    left = land.hypervisor.alive()
    if left:
        land.hypervisor.ec2.terminate_instances(InstanceIds=left)
    assert left == []
