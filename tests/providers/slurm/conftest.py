"""One Slurm for all tests of a process: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.providers.slurm.rig import SlurmRig, running_slurm


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmRig]:
    with running_slurm() as rig:
        yield rig


@pytest.fixture
def slurm(slurm_cluster: SlurmRig, monkeypatch: pytest.MonkeyPatch) -> SlurmRig:
    """The cluster without jobs, and its commands for this process."""
    for name, value in slurm_cluster.environment.items():
        monkeypatch.setenv(name, value)
    slurm_cluster.empty()
    return slurm_cluster
