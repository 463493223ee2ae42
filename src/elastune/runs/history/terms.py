"""What has to be known beside a journal to tell its history."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.cluster import ClusterTerms
from elastune.core.terms import RunTerms
from elastune.spec.mode import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTerms:
    """Which metric counts, which way it is good, and what machines cost."""

    metric: str
    mode: Mode
    cluster: ClusterTerms

    @classmethod
    def of(cls, terms: RunTerms) -> HistoryTerms:
        return cls(metric=terms.metric, mode=terms.mode, cluster=terms.cluster)


TIMES_ONLY = HistoryTerms(
    metric="", mode=Mode.MAX, cluster=ClusterTerms(slots_per_node=1, max_nodes=1, price_per_hour=0.0)
)
"""For readers that ask neither for money nor for the metric."""
