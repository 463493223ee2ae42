"""What every provider owes, of worker pods on a stand-in for an API server."""

from __future__ import annotations

import pytest

from tests.providers.contract import ProviderContract
from tests.providers.kubernetes.stage import PodStage


class TestKubernetes(ProviderContract):
    @pytest.fixture
    def stage(self, pod_stage: PodStage) -> PodStage:
        return pod_stage
