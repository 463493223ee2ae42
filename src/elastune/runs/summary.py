"""Many runs of one policy in a few numbers."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from elastune.planning import Limits
from elastune.runs.result import Estimate
from elastune.runs.standing import Standing
from elastune.spec.mode import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """`sd` is that of a sample; None where there is only one value."""

    mean: float
    sd: float | None
    min: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySummary:
    """`metric` is over the best models of the runs that have one."""

    policy: str
    metric_name: str
    mode: Mode
    limits: Limits
    seeds: tuple[int, ...]
    predicted: Estimate | None
    promised: Estimate | None
    jct_seconds: Figures
    cost: Figures
    metric: Figures | None
    kept_deadline: int | None
    """Runs that did; None: there is no deadline."""
    kept_budget: int | None
    endings: Mapping[str, int]
    remarks: Mapping[str, int]
    """Runs with remarks on a topic."""
    failed_trials: int
    trials: int
    best_by_seed: Mapping[int, float]

    def to_dict(self) -> dict[str, object]:
        runs = len(self.seeds)
        return {
            "policy": self.policy,
            "runs": runs,
            "predicted": None if self.predicted is None else asdict(self.predicted),
            "predicted_quantile": None if self.promised is None else asdict(self.promised),
            "jct_seconds": asdict(self.jct_seconds),
            "cost": asdict(self.cost),
            "metric": None if self.metric is None else asdict(self.metric),
            "kept_deadline": None if self.kept_deadline is None else self.kept_deadline / runs,
            "kept_budget": None if self.kept_budget is None else self.kept_budget / runs,
            "endings": dict(self.endings),
        }


def summarise(standings: Sequence[Standing], *, mode: Mode) -> PolicySummary:
    """Of at least one run."""
    first = standings[0]
    best = {each.seed: each.best.metric for each in standings if each.best is not None}
    endings = Counter(each.ending.value for each in standings if each.ending is not None)
    topics = Counter(topic for each in standings for topic in {remark.topic for remark in each.remarks})
    return PolicySummary(
        policy=first.policy,
        metric_name=first.metric,
        mode=mode,
        limits=first.limits,
        seeds=tuple(each.seed for each in standings),
        predicted=first.predicted,
        promised=first.promised,
        jct_seconds=_figures([each.actual.jct_seconds for each in standings]),
        cost=_figures([each.actual.cost for each in standings]),
        metric=_figures(list(best.values())) if best else None,
        kept_deadline=_count([each.keeps_deadline for each in standings]),
        kept_budget=_count([each.keeps_budget for each in standings]),
        endings=dict(endings.most_common()),
        remarks=dict(topics.most_common()),
        failed_trials=sum(failure.trials for each in standings for failure in each.failures),
        trials=sum(each.trials for each in standings),
        best_by_seed=best,
    )


def _figures(values: Sequence[float]) -> Figures:
    return Figures(
        mean=statistics.fmean(values),
        sd=statistics.stdev(values) if len(values) > 1 else None,
        min=min(values),
        max=max(values),
    )


def _count(kept: Sequence[bool | None]) -> int | None:
    return None if None in kept else sum(map(bool, kept))
