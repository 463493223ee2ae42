"""The cluster section: the machines a job may use and what they cost."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError

from elastune.cluster import JOBS_PRICE, Billing, ClusterTerms
from elastune.errors import JobError
from elastune.job.kinds import Interruptions, KindSection, Options, filled
from elastune.job.latencies import Latency
from elastune.job.section import MisfitError, Section
from elastune.profiles import Constant
from elastune.providers import known_providers
from elastune.providers.prices import billing_rule, interruption_teller, price_teller
from elastune.quantities import (
    Count,
    Duration,
    ExpectedError,
    Money,
    PositiveMoney,
    SizeGb,
    Word,
    one_of,
    word,
)
from elastune.units import plural

DEFAULT_MAX_NODES = 64
# The machines at hand.
LOCAL = "local"
_ROUNDING = 1 + 1e-9
_billing = one_of(*(kind.value for kind in Billing))
# Left out of a job's data where they say nothing, so that the journals of jobs without them do not change.
LATER_KEYS = (
    "options",
    "price_source",
    "most_price_per_hour",
    "most_spend_per_hour",
    "interruptions_per_hour",
    "kinds",
)


def _provider(value: object) -> str:
    """One that is installed. Only a name that is not ours has the installed packages looked through."""
    name = word(value)
    return name if name == LOCAL else one_of(*known_providers())(name)


def _kinds(value: object) -> object:
    if isinstance(value, list | tuple):
        return value
    raise ExpectedError("a list of kinds, such as [{name: p3.8xlarge, price_per_hour: 12.24}]")


class ClusterSection(Section):
    """One kind of node. `nodes` is a fixed cluster, `max_nodes` one that may stretch up to that."""

    slots_per_node: Count = Field(description="the slots of one node, such as 4 for a machine with 4 GPUs")
    max_nodes: Count | None = None
    nodes: Count | None = None
    provider: Annotated[str, BeforeValidator(_provider)] = LOCAL
    price_per_hour: Money | None = Field(
        default=None, validate_default=True, description="what one node costs per hour, such as 12.24"
    )
    """None: the provider is to be asked."""
    billing: Annotated[
        Billing, BeforeValidator(lambda value: value if isinstance(value, Billing) else _billing(value))
    ] = Billing.INSTANCE
    minimum_charge: Duration = Field(default=None, validate_default=True)
    queue: Latency = Constant(0.0)
    init: Latency = Constant(0.0)
    data_gb: SizeGb = 0.0
    data_price_per_gb: Money = 0.0
    options: Options = Field(default={})
    """For the provider alone, which checks them."""
    price_source: Word | None = None
    most_price_per_hour: Money | None = None
    """Of the dearest node that may come. Both are written in when a price is looked up."""
    most_spend_per_hour: PositiveMoney | None = None
    interruptions_per_hour: Interruptions | None = None
    """None: as the provider says."""
    kinds: Annotated[tuple[KindSection, ...], BeforeValidator(_kinds)] = ()

    @model_validator(mode="before")
    @classmethod
    def _kinds_may_say_it_all(cls, written: Any) -> Any:
        return filled(written)

    @field_validator("price_per_hour", mode="before")
    @classmethod
    def _somebody_knows_the_price(cls, written: object, info: ValidationInfo) -> object:
        if written is None and price_teller(info.data.get("provider", LOCAL)) is None:
            raise PydanticKnownError("missing")
        return written

    @field_validator("minimum_charge", mode="before")
    @classmethod
    def _charges_are_the_providers(cls, written: object, info: ValidationInfo) -> object:
        usual = billing_rule(info.data.get("provider", LOCAL)).minimum_charge_s
        return usual if written is None else written

    @model_validator(mode="after")
    def _kinds_fit(self) -> Self:
        names = [kind.name for kind in self.kinds]
        for number, kind in enumerate(self.kinds):
            if kind.name in names[:number]:
                raise MisfitError(("kinds", f"{number}", "name"), f"is {kind.name!r} again; expected another")
            if kind.max_nodes is not None and self.nodes is not None:
                raise MisfitError(
                    ("kinds", f"{number}", "max_nodes"),
                    "does not go with cluster.nodes: a fixed cluster does not stretch",
                )
        return self

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

    @property
    def is_settled(self) -> bool:
        """Whether the job says all that there is to know of price and risk."""
        asked = self.price_per_hour is None or interruption_teller(self.provider) is not None
        return not (asked or self.interruptions_per_hour)

    def of_kind(self, kind: KindSection) -> Self:
        """The same without a choice."""
        return self.model_copy(update=kind.overrides(self.options))

    @property
    def silent_keys(self) -> set[str]:
        return {key for key in LATER_KEYS if getattr(self, key) == type(self).model_fields[key].default}

    def to_terms(self) -> ClusterTerms:
        if self.price_per_hour is None:
            raise JobError(
                "cluster.price_per_hour is missing: nobody has asked the provider yet; expected a price, or "
                "`elastune.quote`, which asks"
            )
        rule = billing_rule(self.provider)
        most_nodes = self.most_nodes
        dearest = max(self.price_per_hour, self.most_price_per_hour or 0.0)
        if self.most_spend_per_hour is not None and dearest:
            most_nodes = min(most_nodes, math.floor(self.most_spend_per_hour / dearest * _ROUNDING))
            if not most_nodes or (self.nodes is not None and most_nodes < self.nodes):
                need = self.nodes or 1
                raise JobError(
                    f"cluster.most_spend_per_hour is ${self.most_spend_per_hour:g}, but "
                    f"{plural(need, 'node')} may cost ${need * dearest:g} per hour; expected at least that"
                )
        return ClusterTerms(
            slots_per_node=self.slots_per_node,
            max_nodes=most_nodes,
            price_per_hour=self.price_per_hour,
            fixed=self.nodes is not None,
            billing=self.billing,
            minimum_charge_s=self.minimum_charge,
            queue=self.queue,
            init=self.init,
            data_usd_per_node=self.data_gb * self.data_price_per_gb,
            price_source=self.price_source or JOBS_PRICE,
            most_price_per_hour=self.most_price_per_hour,
            most_usd_per_hour=self.most_spend_per_hour,
            parting_s=rule.parting_s,
            least_life_s=rule.least_life_s,
        )
