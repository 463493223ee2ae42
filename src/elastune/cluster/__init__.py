"""The machines: what a node is, what it costs, how long it takes to come up."""

from elastune.cluster.terms import JOBS_PRICE, SECONDS_PER_HOUR, Billing, ClusterTerms

__all__ = ["JOBS_PRICE", "SECONDS_PER_HOUR", "Billing", "ClusterTerms"]
