"""What a simulated provider charges.

It counts by itself, from what the provider knows, and shares no code with planner or ledger: it is the bill
that they are checked against.
"""

from __future__ import annotations

import math

from elastune.cluster import SECONDS_PER_HOUR, Billing, ClusterTerms
from elastune.place import NodeId


class Meter:
    """Runs for every node from the start of its INIT until it is released or lost."""

    def __init__(self, terms: ClusterTerms) -> None:
        self._terms = terms
        self._start_s: dict[NodeId, float] = {}
        self._stop_s: dict[NodeId, float] = {}
        self._usd_per_hour: dict[NodeId, float] = {}

    def start(self, node: NodeId, at_s: float, usd_per_hour: float | None = None) -> None:
        self._start_s[node] = at_s
        if usd_per_hour is not None:
            self._usd_per_hour[node] = usd_per_hour

    def stop(self, node: NodeId, at_s: float) -> None:
        self._stop_s[node] = at_s

    def billed_s(self, node: NodeId, at_s: float) -> float:
        """How long it has run, without a minimum charge."""
        return self._stop_s.get(node, at_s) - self._start_s[node]

    def stopped_s(self, node: NodeId) -> float | None:
        return self._stop_s.get(node)

    def usd_per_hour(self, node: NodeId) -> float | None:
        """None: as all nodes."""
        return self._usd_per_hour.get(node)

    def usd(self, at_s: float) -> float:
        """Owed at this instant. The minimum charge is owed as soon as a node is granted, whoever ends it.

        Under per-function billing machine time is free here: slots are charged by use, which a provider of
        nodes does not see. Data ingress is owed under both.
        """
        started = {node: start_s for node, start_s in self._start_s.items() if start_s <= at_s}
        ingress_usd = len(started) * self._terms.data_usd_per_node
        if self._terms.billing is Billing.FUNCTION:
            return ingress_usd
        usual = self._terms.price_per_hour
        usd = math.fsum(
            max(min(self._stop_s.get(node, at_s), at_s) - start_s, self._terms.minimum_charge_s)
            * self._usd_per_hour.get(node, usual)
            for node, start_s in started.items()
        )
        return usd / SECONDS_PER_HOUR + ingress_usd
