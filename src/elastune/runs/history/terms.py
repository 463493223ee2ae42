"""What has to be known beside a journal to tell its history."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.cluster import ClusterTerms
from elastune.spec.mode import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTerms:
    """Which metric counts, which way it is good, and what machines cost."""

    metric: str
    mode: Mode
    cluster: ClusterTerms
