"""What every provider owes, of a real Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.providers.contract import ProviderContract
from tests.providers.slurm.rig import SlurmRig
from tests.providers.slurm.stage import SlurmStage


class TestSlurm(ProviderContract):
    @pytest.fixture
    def stage(self, slurm: SlurmRig, tmp_path: Path) -> Iterator[SlurmStage]:
        made = SlurmStage(tmp_path)
        yield made
        made.close()
        assert slurm.jobs() == []
