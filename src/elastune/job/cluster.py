"""Kinds of nodes: alternatives of which the cheapest that keeps the limits is taken.

A kind says what differs from the rest of `cluster`. Once one is chosen the job goes on as a plain one, so
nobody who runs it has to know that there was a choice.

The cluster section: the machines a job may use and what they cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError

from elastune.errors import JobError
from elastune.job.profile import AnyProfile, Latency
from elastune.job.section import MisfitError, Section
from elastune.model.billing import billing_rule
from elastune.model.cluster import JOBS_PRICE, Billing, ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.quantities import (
    Count,
    Duration,
    ExpectedError,
    Money,
    PositiveMoney,
    SizeGb,
    Word,
    one_of,
    parse_number,
    word,
)
from elastune.providers.registry import interruption_teller, known_providers, price_teller
from elastune.wording import plural

# What a cluster may leave out where every kind has it.
_EACH_ITS_OWN = ("slots_per_node", "price_per_hour")
_MOST_INTERRUPTIONS = 60.0


def _options(written: object) -> dict[str, Any]:
    if isinstance(written, Mapping) and _is_plain(written):
        return dict(written)
    raise ExpectedError("a mapping of names to plain values, such as {instance_type: p3.8xlarge}")


def _is_plain(value: object) -> bool:
    """Whether a journal can keep it."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, str | int | float | bool)


def _interruptions(written: object) -> float:
    rate = parse_number(written)
    if rate is None or not 0.0 <= rate <= _MOST_INTERRUPTIONS:
        raise ExpectedError(f"a number from 0 to {_MOST_INTERRUPTIONS:g}, such as 0.05 (once in 20 hours)")
    return rate


Options = Annotated[dict[str, Any], BeforeValidator(_options)]
Interruptions = Annotated[float, BeforeValidator(_interruptions)]


class KindSection(Section):
    """What is left out is as in `cluster`; `options` are merged over those of the cluster."""

    name: Word = Field(description="how the kind is called in the quote, such as p3.8xlarge")
    slots_per_node: Count | None = None
    price_per_hour: Money | None = None
    max_nodes: Count | None = None
    queue: Latency | None = None
    init: Latency | None = None
    options: Options = Field(default={})
    interruptions_per_hour: Interruptions | None = None
    profile: AnyProfile | None = None

    def overrides(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What changes in a cluster with these options."""
        names = ("slots_per_node", "price_per_hour", "max_nodes", "queue", "init", "interruptions_per_hour")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return {**given, "options": {**options, **self.options}, "kinds": ()}


def written_kinds(cluster: object) -> Sequence[object]:
    """As they are in a job's data, right or wrong."""
    kinds = cluster.get("kinds") if isinstance(cluster, Mapping) else None
    return kinds if isinstance(kinds, list | tuple) else ()


def kinds_in(folder: Path, cluster: object) -> object:
    """A cluster as it was written in a job in `folder`, with the paths of profiles seen from here."""
    kinds = written_kinds(cluster)
    if not isinstance(cluster, Mapping) or not kinds:
        return cluster
    return {**cluster, "kinds": [_kind_in(folder, kind) for kind in kinds]}


def _kind_in(folder: Path, kind: object) -> object:
    if isinstance(kind, Mapping) and isinstance(kind.get("profile"), str | Path):
        return {**kind, "profile": folder / kind["profile"]}
    return kind


def filled(cluster: object) -> object:
    """Where every kind has its own, the cluster's does not matter, and is that of the first."""
    found = {key: shared for key in _EACH_ITS_OWN if (shared := first_of_all(cluster, key)) is not None}
    return {**found, **cluster} if found and isinstance(cluster, Mapping) else cluster


def first_of_all(cluster: object, key: str) -> object:
    """What the first kind has under this key; None: not every kind has it."""
    values = [
        kind.get(key) if isinstance(kind, Mapping) else getattr(kind, key, None)
        for kind in written_kinds(cluster)
    ]
    return values[0] if values and all(value is not None for value in values) else None


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
            shutdown_s=rule.shutdown_s,
            least_life_s=rule.least_life_s,
        )
