"""The cluster section: the machines a job may use, what they cost, and alternative kinds of nodes.

A kind says what differs from the rest of `cluster`; of several, the cheapest that keeps the limits is taken.
Once one is chosen, the job continues as one without kinds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError

from elastune.errors import JobError
from elastune.job.profile import AnyProfile, Latency, profile_in
from elastune.job.section import MisfitError, Section
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
from elastune.providers.registry import billing_rule, interruption_lookup, known_providers, price_lookup
from elastune.wording import plural

DEFAULT_MAX_NODES = 64
LOCAL = "local"
_MOST_INTERRUPTIONS = 60.0
_ROUNDING = 1 + 1e-9
# What a cluster may leave out if every kind has it.
_KEYS_OF_KINDS = ("slots_per_node", "price_per_hour", "provider")
# Left out of a job's data at their defaults, so that the journals of jobs without them do not change.
LATER_KEYS = (
    "options", "price_source", "most_price_per_hour", "most_spend_per_hour", "interruptions_per_hour", "kinds"
)  # fmt: skip
_billing = one_of(*(kind.value for kind in Billing))


def _options(written: object) -> dict[str, Any]:
    if isinstance(written, Mapping) and _is_plain(written):
        return dict(written)
    raise ExpectedError("a mapping of names to plain values, such as {instance_type: p3.8xlarge}")


def _is_plain(value: object) -> bool:
    """Whether a journal can hold the value."""
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


def _provider(value: object) -> str:
    """The name of an installed provider. The default does not search the installed packages."""
    name = word(value)
    return name if name == LOCAL else one_of(*known_providers())(name)


class KindSection(Section):
    """Keys that are left out are as in `cluster`; `options` are merged over those of the cluster, if the
    provider is the same."""

    name: Word = Field(description="how the kind is called in the quote, such as p3.8xlarge")
    provider: Annotated[str, BeforeValidator(_provider)] | None = None
    slots_per_node: Count | None = None
    price_per_hour: Money | None = None
    max_nodes: Count | None = None
    queue: Latency | None = None
    init: Latency | None = None
    options: Options = Field(default={})
    interruptions_per_hour: Interruptions | None = None
    profile: AnyProfile | None = None

    def overrides(self, cluster: ClusterSection) -> dict[str, Any]:
        """What changes in the cluster."""
        names = ("slots_per_node", "price_per_hour", "max_nodes", "queue", "init", "interruptions_per_hour")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.provider is None or self.provider == cluster.provider:
            return {**given, "options": {**cluster.options, **self.options}, "kinds": ()}
        if "minimum_charge" not in cluster.model_fields_set:
            given["minimum_charge"] = billing_rule(self.provider).minimum_charge_s
        if price_lookup(self.provider) is not None:
            given.setdefault("price_per_hour", None)
        return {**given, "provider": self.provider, "options": self.options, "kinds": ()}


def written_kinds(cluster: object) -> Sequence[object]:
    """As they are in a job's data, valid or not."""
    kinds = cluster.get("kinds") if isinstance(cluster, Mapping) else None
    return kinds if isinstance(kinds, list | tuple) else ()


def kinds_in(folder: Path, cluster: object) -> object:
    """A cluster as written in a job in `folder`, with paths as seen from the working folder."""
    kinds = [profile_in(folder, kind) for kind in written_kinds(cluster)]
    return {**cluster, "kinds": kinds} if isinstance(cluster, Mapping) and kinds else cluster


def first_of_all(cluster: object, key: str) -> object:
    """The value of the first kind; None: not every kind has the key."""
    kinds = written_kinds(cluster)
    values = [each.get(key) if isinstance(each, Mapping) else getattr(each, key, None) for each in kinds]
    return values[0] if values and all(value is not None for value in values) else None


def _kinds(value: object) -> object:
    if isinstance(value, list | tuple):
        return value
    raise ExpectedError("a list of kinds, such as [{name: p3.8xlarge, price_per_hour: 12.24}]")


class ClusterSection(Section):
    """`nodes` is the size of a fixed cluster, `max_nodes` the largest size of an elastic one."""

    slots_per_node: Count = Field(description="the slots of one node, such as 4 for a machine with 4 GPUs")
    max_nodes: Count | None = None
    nodes: Count | None = None
    provider: Annotated[str, BeforeValidator(_provider)] = LOCAL
    price_per_hour: Money | None = Field(
        default=None,
        validate_default=True,
        description="what one node costs per hour, such as 12.24 (for this machine: nodes: 1, and no price)",
    )
    """None: ask the provider."""
    billing: Annotated[
        Billing, BeforeValidator(lambda value: value if isinstance(value, Billing) else _billing(value))
    ] = Billing.INSTANCE
    minimum_charge: Duration = Field(default=None, validate_default=True)
    queue: Latency = Constant(0.0)
    init: Latency = Constant(0.0)
    data_gb: SizeGb = 0.0
    data_price_per_gb: Money = 0.0
    options: Options = Field(default={})
    """The provider checks them."""
    price_source: Word | None = None
    most_price_per_hour: Money | None = None
    """Of the dearest node that may be launched. Filled in, as the source is, when a price is looked up."""
    most_spend_per_hour: PositiveMoney | None = None
    interruptions_per_hour: Interruptions | None = None
    """None: ask the provider."""
    kinds: Annotated[tuple[KindSection, ...], BeforeValidator(_kinds)] = ()

    @model_validator(mode="before")
    @classmethod
    def _take_keys_of_kinds(cls, written: Any) -> Any:
        """Where every kind has a key, the cluster's own value is not used; it is that of the first."""
        found = {key: value for key in _KEYS_OF_KINDS if (value := first_of_all(written, key)) is not None}
        return {**found, **written} if found and isinstance(written, Mapping) else written

    @field_validator("price_per_hour", mode="before")
    @classmethod
    def _price_is_known(cls, written: object, info: ValidationInfo) -> object:
        if written is None and price_lookup(info.data.get("provider", LOCAL)) is None:
            raise PydanticKnownError("missing")
        return written

    @field_validator("minimum_charge", mode="before")
    @classmethod
    def _take_charge_of_provider(cls, written: object, info: ValidationInfo) -> object:
        usual = billing_rule(info.data.get("provider", LOCAL)).minimum_charge_s
        return usual if written is None else written

    @model_validator(mode="after")
    def _kinds_fit(self) -> Self:
        names = [kind.name for kind in self.kinds]
        for number, kind in enumerate(self.kinds):
            if kind.name in names[:number]:
                raise MisfitError(("kinds", f"{number}", "name"), f"is {kind.name!r} again; expected another")
            if kind.max_nodes is not None and self.nodes is not None:
                text = "does not go with cluster.nodes, which is the size of a fixed cluster"
                raise MisfitError(("kinds", f"{number}", "max_nodes"), text)
        return self

    @model_validator(mode="after")
    def _is_fixed_or_elastic(self) -> Self:
        if self.nodes is not None and self.max_nodes is not None:
            text = "and max_nodes exclude each other: a cluster is fixed (nodes) or elastic (max_nodes)"
            raise MisfitError(("nodes",), text)
        return self

    @property
    def most_nodes(self) -> int:
        return self.nodes or self.max_nodes or DEFAULT_MAX_NODES

    @property
    def is_settled(self) -> bool:
        """Whether the job itself gives the price and the spot risk."""
        asked = self.price_per_hour is None or interruption_lookup(self.provider) is not None
        return not (asked or self.interruptions_per_hour)

    def of_kind(self, kind: KindSection) -> Self:
        """The cluster with this kind alone."""
        return self.model_copy(update=kind.overrides(self))

    @property
    def silent_keys(self) -> set[str]:
        return {key for key in LATER_KEYS if getattr(self, key) == type(self).model_fields[key].default}

    def to_terms(self) -> ClusterTerms:
        if self.price_per_hour is None:
            raise JobError(
                "cluster.price_per_hour is missing: the provider has not been asked yet; expected a price, "
                "or a call of `elastune.quote`, which asks"
            )
        rule = billing_rule(self.provider)
        return ClusterTerms(
            slots_per_node=self.slots_per_node,
            max_nodes=self._affordable_nodes(max(self.price_per_hour, self.most_price_per_hour or 0.0)),
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

    def _affordable_nodes(self, dearest: float) -> int:
        if self.most_spend_per_hour is None or not dearest:
            return self.most_nodes
        affordable, needed = math.floor(self.most_spend_per_hour / dearest * _ROUNDING), self.nodes or 1
        if affordable < needed:
            raise JobError(
                f"cluster.most_spend_per_hour is ${self.most_spend_per_hour:g}, but "
                f"{plural(needed, 'node')} may cost ${needed * dearest:g} per hour; expected at least that"
            )
        return min(self.most_nodes, affordable)
