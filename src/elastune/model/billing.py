"""What a node costs: the provider's rules, in one place.

By instance a node costs from the start of its INIT to its release, at least the minimum charge. By function a
slot costs while its gang starts, trains and saves; nodes are free. Both charge data ingress for every new
node. Planners, ledger, policies and reports use these functions. The meter of the simulated provider does
not: they are checked against its bill.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from elastune.model.cluster import SECONDS_PER_HOUR, Billing, ClusterTerms
from elastune.model.distributions import Array


class HasMinimum(Protocol):
    @property
    def minimum_charge_s(self) -> float: ...


def bills_nodes(cluster: ClusterTerms) -> bool:
    """Whether nodes are billed, also while idle; if not, slots at work are."""
    return cluster.billing is Billing.INSTANCE


def node_rate(cluster: ClusterTerms, usd_per_hour: float | None = None) -> float:
    """Dollars per second of a node, 0 if not billed. `usd_per_hour`: its own price, if not the usual one."""
    if not bills_nodes(cluster):
        return 0.0
    return cluster.node_usd_per_s if usd_per_hour is None else usd_per_hour / SECONDS_PER_HOUR


def slot_rate(cluster: ClusterTerms) -> float:
    """Dollars per second of a slot at work, 0 if not billed."""
    return 0.0 if bills_nodes(cluster) else cluster.slot_usd_per_s


def ingress_usd(cluster: ClusterTerms, new_nodes: int) -> float:
    return new_nodes * cluster.data_usd_per_node


def most_node_usd(cluster: ClusterTerms, lived_s: float) -> float:
    """The most that one more node may cost if it is released after that time."""
    usd = cluster.dearest_usd_per_s * charged_s(cluster, lived_s) if bills_nodes(cluster) else 0.0
    return ingress_usd(cluster, 1) + usd


def charged_s(terms: HasMinimum, lived_s: float) -> float:
    """Seconds charged for a node that is released after that time."""
    return max(terms.minimum_charge_s, lived_s)


def charged_each_s(terms: HasMinimum, lived_s: Array) -> Array:
    charged: Array = np.maximum(terms.minimum_charge_s, lived_s)
    return charged


def unused_s(terms: HasMinimum, age_s: float) -> float:
    """Seconds of the minimum charge left if a node of that age is released now."""
    return max(0.0, terms.minimum_charge_s - age_s)


def unused_each_s(terms: HasMinimum, age_s: Array) -> Array:
    unused: Array = np.maximum(0.0, terms.minimum_charge_s - age_s)
    return unused


def paid_until_s(terms: HasMinimum, births: Sequence[tuple[float, float]], node_s: float) -> float:
    """When nodes will have been charged `node_s` seconds together. `births`: the start of each, in order of
    time, and the weight of its seconds (its price in units of the usual one); at least one.

    The sum of `charged_s` is piecewise linear: at time x, with the k oldest nodes beyond their minimum, it is
    k x - (sum of their births) + (n - k) minima.
    """
    least, younger = terms.minimum_charge_s, sum(weight for _, weight in births)
    born_sum, older, until_s = 0.0, 0.0, -math.inf
    for number, (born_s, weight) in enumerate(births, 1):
        born_sum, older, younger = born_sum + weight * born_s, older + weight, younger - weight
        until_s = (node_s + born_sum - younger * least) / older
        if number == len(births) or until_s <= births[number][0] + least:
            break
    return until_s


Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    usd_per_hour: float  # of the node that is requested first
    source: str
    as_of: str  # the date of the price, for people
    most_usd_per_hour: float | None = None  # of the most expensive substitute; None: none costs more
    remark: str = ""

    def __str__(self) -> str:
        """`EC2 on demand, us-east-1, price list of 16 Nov 2026`."""
        return f"{self.source} of {self.as_of}" + (f"; {self.remark}" if self.remark else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingRule:
    billing: Billing = Billing.INSTANCE
    minimum_charge_s: float = 60.0
    increment_s: float = 1.0  # charges are rounded up to multiples of this
    shutdown_s: float = 0.0  # how long a node that ends by itself may still be billed
    least_life_s: float = 0.0  # a node that may not live this long is not requested


USUAL_BILLING = BillingRule()
