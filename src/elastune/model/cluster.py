"""The machines a plan may use and what they cost."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from elastune.model.distributions import Constant, Distribution, is_constant

SECONDS_PER_HOUR = 3600.0
JOBS_PRICE = "the job"
"""The source of a price that was not looked up. Nobody has to be told."""
_NOTHING = Constant(0.0)


class Billing(enum.Enum):
    """How the provider charges (RubberBand section 4.1)."""

    INSTANCE = "instance"
    """A node costs from the start of its INIT to its release, whatever it does."""
    FUNCTION = "function"
    """A slot costs while its gang starts, trains and saves; idle nodes are free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTerms:
    """One kind of node: its size, its price and how long it takes to come up."""

    slots_per_node: int
    max_nodes: int
    price_per_hour: float
    fixed: bool = False
    """All `max_nodes` nodes are held from the first stage to the last."""
    billing: Billing = Billing.INSTANCE
    minimum_charge_s: float = 60.0
    queue: Distribution = _NOTHING
    init: Distribution = _NOTHING
    data_usd_per_node: float = 0.0
    price_source: str = JOBS_PRICE
    """Where the price comes from and of when it is, for people."""
    most_price_per_hour: float | None = None
    """Of the dearest node that a request may bring; None: all cost the same."""
    shutdown_s: float = 0.0
    """How long a node may go on costing money after the instant at which it has to end by itself."""
    least_life_s: float = 0.0
    """A node that the budget does not let live for so long, even unwatched, is not asked for."""
    most_usd_per_hour: float | None = None
    """What all nodes together may cost per hour; None: only their number is limited."""

    @property
    def is_priced_by_job(self) -> bool:
        return self.price_source == JOBS_PRICE

    @property
    def dearest_usd_per_s(self) -> float:
        """What a node costs that was asked for and has not come yet, at most."""
        most = self.price_per_hour if self.most_price_per_hour is None else self.most_price_per_hour
        return max(most, self.price_per_hour) / SECONDS_PER_HOUR

    @property
    def node_usd_per_s(self) -> float:
        return self.price_per_hour / SECONDS_PER_HOUR

    @property
    def slot_usd_per_s(self) -> float:
        return self.node_usd_per_s / self.slots_per_node

    @property
    def is_deterministic(self) -> bool:
        return is_constant(self.queue) and is_constant(self.init)
