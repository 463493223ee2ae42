"""Every provider keeps the contract."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from elastune.model.distributions import Constant, Distribution, LogNormal
from elastune.providers.protocol import MachineState, Provider, Survey
from elastune.providers.simulated_faults import NodeFaults
from tests.providers.clouds import Cloud, cloud, terms
from tests.providers.contract import ProviderContract


@dataclass
class SimulatedStage:
    """Room is either the run's own limit or what the provider has."""

    latency: Distribution
    capacity: bool
    _clouds: dict[int, Cloud] = field(default_factory=dict)

    def provider(self, *, room: int = 4) -> Provider:
        most = terms(max_nodes=100 if self.capacity else room, queue=self.latency, init=self.latency)
        made = cloud(most, faults=NodeFaults(capacity=room if self.capacity else None))
        self._clouds[id(made.provider)] = made
        return made.provider

    def reopen(self, provider: Provider) -> Provider:
        return provider

    def settle(self, provider: Provider) -> Survey:
        here = self._clouds[id(provider)]
        while (change_s := here.provider.next_change_s()) is not None:
            here.clock.now_s = change_s
            here.provider.survey()
        survey = provider.survey()
        assert all(machine.state is MachineState.READY for machine in survey.machines)
        return survey


@pytest.mark.parametrize("capacity", [False, True], ids=["max_nodes", "capacity"])
@pytest.mark.parametrize(
    "latency", [Constant(0.0), Constant(30.0), LogNormal(40.0, 20.0)], ids=["instant", "constant", "noisy"]
)
class TestSimulated(ProviderContract):
    @pytest.fixture
    def stage(self, latency: Distribution, capacity: bool) -> SimulatedStage:
        return SimulatedStage(latency=latency, capacity=capacity)
