"""A clock that is set by hand, and clouds on it."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant, Distribution
from elastune.providers.simulated import SimulatedProvider
from elastune.providers.simulated_faults import NodeFaults


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def terms(
    *,
    max_nodes: int = 8,
    queue: Distribution | float = 10.0,
    init: Distribution | float = 20.0,
    billing: Billing = Billing.INSTANCE,
    data_usd_per_node: float = 0.0,
) -> ClusterTerms:
    """Nodes at $36 an hour, a cent per second."""
    return ClusterTerms(
        slots_per_node=4,
        max_nodes=max_nodes,
        price_per_hour=36.0,
        billing=billing,
        queue=Constant(queue) if isinstance(queue, float) else queue,
        init=Constant(init) if isinstance(init, float) else init,
        data_usd_per_node=data_usd_per_node,
    )


@dataclass(frozen=True)
class Cloud:
    """A simulated provider and the clock it lives on."""

    clock: Clock
    provider: SimulatedProvider

    def at(self, at_s: float) -> SimulatedProvider:
        """The provider, at that time."""
        self.clock.now_s = at_s
        return self.provider


def cloud(
    of: ClusterTerms | None = None,
    *,
    seed: int = 0,
    faults: NodeFaults | None = None,
    expires_s: float | None = None,
) -> Cloud:
    clock = Clock()
    provider = SimulatedProvider(
        of or terms(), seed=seed, clock=clock, faults=faults or NodeFaults(), expires_s=expires_s
    )
    return Cloud(clock=clock, provider=provider)
