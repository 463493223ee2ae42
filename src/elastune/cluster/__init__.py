"""The machines: what a node is, what it costs, how long it takes to come up."""

from elastune.cluster.terms import SECONDS_PER_HOUR, Billing, ClusterTerms

__all__ = ["SECONDS_PER_HOUR", "Billing", "ClusterTerms"]
