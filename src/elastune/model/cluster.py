"""The machines a plan may use and what they cost."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from elastune.model.distributions import Constant, Distribution, is_constant

SECONDS_PER_HOUR = 3600.0
JOBS_PRICE = "the job"
"""The source of a price that the job states; it is not shown."""
_NOTHING = Constant(0.0)


class Billing(enum.Enum):
    """How the provider charges (RubberBand section 4.1)."""

    INSTANCE = "instance"
    """A node is billed from the start of its INIT to its release."""
    FUNCTION = "function"
    """A slot is billed while its gang starts, trains and saves; idle nodes are free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTerms:
    slots_per_node: int
    max_nodes: int
    price_per_hour: float
    fixed: bool = False  # all `max_nodes` nodes are held from the first stage to the last
    billing: Billing = Billing.INSTANCE
    minimum_charge_s: float = 60.0
    queue: Distribution = _NOTHING
    init: Distribution = _NOTHING
    data_usd_per_node: float = 0.0
    price_source: str = JOBS_PRICE  # source and date of the price, for people
    most_price_per_hour: float | None = None  # of the most expensive node that may come; None: all the same
    shutdown_s: float = 0.0  # how long a node may still be billed after the time at which it ends by itself
    least_life_s: float = 0.0  # a node is not requested if the budget does not pay for this, even unwatched
    most_usd_per_hour: float | None = None  # of all nodes together; None: only their number is limited

    @property
    def is_priced_by_job(self) -> bool:
        return self.price_source == JOBS_PRICE

    @property
    def is_free(self) -> bool:
        """Whether nothing can cost anything; then no money is shown."""
        return not (self.price_per_hour or self.most_price_per_hour or self.data_usd_per_node)

    @property
    def dearest_usd_per_s(self) -> float:
        """The highest price of a node that was requested and has not come yet."""
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
