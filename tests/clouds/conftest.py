"""A user of the cloud that all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.clouds.land import Land, Project


@pytest.fixture
def project(land: Land, tmp_path: Path) -> Iterator[Project]:
    """Of one user. What a test leaves alive, it has not cleaned up itself: that is reported, and ended."""
    from tests.clouds.land import Project  # noqa: PLC0415

    made = Project(land, tmp_path / "work")
    yield made
    made.close()
    land.gate.fault = lambda call: None
    left = land.hypervisor.alive()
    if left:
        land.hypervisor.ec2.terminate_instances(InstanceIds=left)
    assert left == []
