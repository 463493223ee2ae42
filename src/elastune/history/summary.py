"""Summary figures over several runs of a policy, and the comparison of policies on the same seeds."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from elastune.history.result import Estimate
from elastune.history.status import RunStatus, count_kept, keeps, promise_of
from elastune.model.limits import Limits
from elastune.model.metric import Mode
from elastune.setup.run_setup import RunSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDigest:
    run: str
    policy: str
    seed: int
    journal_sha256: str
    actual: Estimate
    best: float | None
    ending: str
    topics: tuple[str, ...]  # topics of its notes
    trials: int
    failed_trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTerms:
    policy: str
    metric_name: str
    mode: Mode
    limits: Limits
    predicted: Estimate | None
    promised: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """`sd` is the sample's, `se` the standard error of the mean; None for a single value."""

    mean: float
    sd: float | None
    se: float | None
    min: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """This policy minus another one, seed by seed.

    A sampler that does not learn gives trial i of a seed the same configuration under every policy; with one
    that learns from results, only the seed is shared.
    """

    policy: str
    seeds: int  # seeds that both policies ran
    jct_seconds: Figures
    cost: Figures
    metric: Figures | None  # None: no seed where both have a best model


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySummary:
    """`metric` summarises the best models of the runs that have one."""

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
    kept_deadline: int | None  # number of runs; None: no deadline
    kept_budget: int | None
    endings: Mapping[str, int]
    remarks: Mapping[str, int]  # runs with notes, by topic
    failed_trials: int
    trials: int
    best_by_seed: Mapping[int, float]
    against: Against | None  # the first policy; None: this is the first, or no shared seed

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
            "trials": self.trials,
            "failed_trials": self.failed_trials,
            "against": None if self.against is None else asdict(self.against),
        }


def terms_of(setup: RunSetup, predicted: Estimate | None) -> PolicyTerms:
    return PolicyTerms(
        policy=setup.policy,
        metric_name=setup.terms.metric,
        mode=setup.terms.mode,
        limits=setup.terms.limits,
        predicted=predicted,
        promised=promise_of(setup.quote),
    )


def digest_of(run: str, standing: RunStatus, journal_sha256: str) -> RunDigest:
    return RunDigest(
        run=run,
        policy=standing.policy,
        seed=standing.seed,
        journal_sha256=journal_sha256,
        actual=standing.actual,
        best=None if standing.best is None else standing.best.metric,
        ending="" if standing.ending is None else standing.ending.value,
        topics=tuple(sorted({remark.topic for remark in standing.remarks})),
        trials=standing.trials,
        failed_trials=sum(failure.trials for failure in standing.failures),
    )


def summarise_all(terms: Sequence[PolicyTerms], digests: Sequence[RunDigest]) -> tuple[PolicySummary, ...]:
    """A summary of each policy that has a run; the others are compared with the first."""
    by_policy = {each.policy: [run for run in digests if run.policy == each.policy] for each in terms}
    present = [each for each in terms if by_policy[each.policy]]
    first = by_policy[present[0].policy] if present else []
    return tuple(
        _summarise(each, by_policy[each.policy], None if each is present[0] else first) for each in present
    )


def _summarise(
    terms: PolicyTerms, runs: Sequence[RunDigest], first: Sequence[RunDigest] | None
) -> PolicySummary:
    best = {run.seed: run.best for run in runs if run.best is not None}
    limits = terms.limits
    return PolicySummary(
        policy=terms.policy,
        metric_name=terms.metric_name,
        mode=terms.mode,
        limits=limits,
        seeds=tuple(run.seed for run in runs),
        predicted=terms.predicted,
        promised=terms.promised,
        jct_seconds=_figures([run.actual.jct_seconds for run in runs]),
        cost=_figures([run.actual.cost for run in runs]),
        metric=_figures(list(best.values())) if best else None,
        kept_deadline=count_kept([keeps(run.actual.jct_seconds, limits.deadline_s) for run in runs]),
        kept_budget=count_kept([keeps(run.actual.cost, limits.budget_usd) for run in runs]),
        endings=dict(Counter(run.ending for run in runs).most_common()),
        remarks=dict(Counter(topic for run in runs for topic in run.topics).most_common()),
        failed_trials=sum(run.failed_trials for run in runs),
        trials=sum(run.trials for run in runs),
        best_by_seed=best,
        against=None if first is None else _against(first, runs),
    )


def _against(first: Sequence[RunDigest], runs: Sequence[RunDigest]) -> Against | None:
    other = {run.seed: run for run in first}
    pairs = [(run, other[run.seed]) for run in runs if run.seed in other]
    if not pairs:
        return None
    metric = [run.best - ref.best for run, ref in pairs if run.best is not None and ref.best is not None]
    return Against(
        policy=first[0].policy,
        seeds=len(pairs),
        jct_seconds=_figures([run.actual.jct_seconds - ref.actual.jct_seconds for run, ref in pairs]),
        cost=_figures([run.actual.cost - ref.actual.cost for run, ref in pairs]),
        metric=_figures(metric) if metric else None,
    )


def _figures(values: Sequence[float]) -> Figures:
    sd = statistics.stdev(values) if len(values) > 1 else None
    se = None if sd is None else sd / math.sqrt(len(values))
    return Figures(mean=statistics.fmean(values), sd=sd, se=se, min=min(values), max=max(values))
