"""The cluster section: the machines a job may use and what they cost."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from elastune.cluster import Billing, ClusterTerms
from elastune.job.latencies import Latency
from elastune.job.quantities import Count, Duration, Money, SizeGb, word
from elastune.job.section import MisfitError, Section, one_of
from elastune.profiles import Constant
from elastune.providers import known_providers

DEFAULT_MAX_NODES = 64
# The machines at hand.
LOCAL = "local"
_billing = one_of(*(kind.value for kind in Billing))


def _provider(value: object) -> str:
    """One that is installed. Only a name that is not ours has the installed packages looked through."""
    name = word(value)
    return name if name == LOCAL else one_of(*known_providers())(name)


class ClusterSection(Section):
    """One kind of node. `nodes` is a fixed cluster, `max_nodes` one that may stretch up to that."""

    slots_per_node: Count = Field(description="the slots of one node, such as 4 for a machine with 4 GPUs")
    max_nodes: Count | None = None
    nodes: Count | None = None
    provider: Annotated[str, BeforeValidator(_provider)] = LOCAL
    price_per_hour: Money = Field(description="what one node costs per hour, such as 12.24")
    billing: Annotated[
        Billing, BeforeValidator(lambda value: value if isinstance(value, Billing) else _billing(value))
    ] = Billing.INSTANCE
    minimum_charge: Duration = 60.0
    queue: Latency = Constant(0.0)
    init: Latency = Constant(0.0)
    data_gb: SizeGb = 0.0
    data_price_per_gb: Money = 0.0

    @model_validator(mode="after")
    def _is_fixed_or_elastic(self) -> Self:
        if self.nodes is not None and self.max_nodes is not None:
            raise MisfitError(
                ("nodes",),
                "and max_nodes exclude each other: a cluster is fixed (nodes) or elastic (max_nodes)",
            )
        return self

    @property
    def most_nodes(self) -> int:
        return self.nodes or self.max_nodes or DEFAULT_MAX_NODES

    def to_terms(self) -> ClusterTerms:
        return ClusterTerms(
            slots_per_node=self.slots_per_node,
            max_nodes=self.most_nodes,
            price_per_hour=self.price_per_hour,
            fixed=self.nodes is not None,
            billing=self.billing,
            minimum_charge_s=self.minimum_charge,
            queue=self.queue,
            init=self.init,
            data_usd_per_node=self.data_gb * self.data_price_per_gb,
        )
