"""Compares runs: policies, seeds, and mean results."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elastune.errors import JobError
from elastune.history.recorder import History
from elastune.history.result import Estimate
from elastune.history.status import count_kept, keeps
from elastune.history.trials import HistoryTerms
from elastune.journal.records import RunRecord
from elastune.journal.run_folders import FoundRun
from elastune.model.limits import Limits
from elastune.model.metric import Mode
from elastune.runs.reading import recall, terms_of
from elastune.runs.reopening import ReopenedRun, reopen

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean and its standard error; None for a single value."""

    value: float
    error: float | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    record: RunRecord
    history: History

    @property
    def best(self) -> float | None:
        return self.history.best[-1].value if self.history.best else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """The runs of one policy in one folder: the same job on different seeds."""

    label: str
    policy: str
    limits: Limits
    predicted: Estimate | None
    runs: tuple[ComparedRun, ...]

    @property
    def best(self) -> Mean | None:
        """Over the runs that found a model."""
        found = [run.best for run in self.runs if run.best is not None]
        return mean_of(found) if found else None

    @property
    def seconds(self) -> Mean:
        return mean_of([run.history.end_s for run in self.runs])

    @property
    def usd(self) -> Mean:
        return mean_of([run.history.usd for run in self.runs])

    @property
    def kept_deadline(self) -> int | None:
        """Number of runs; None: no deadline."""
        return count_kept([keeps(run.history.end_s, self.limits.deadline_s) for run in self.runs])

    @property
    def kept_budget(self) -> int | None:
        return count_kept([keeps(run.history.usd, self.limits.budget_usd) for run in self.runs])

    @property
    def endings(self) -> dict[str, int]:
        endings = [run.history.ending for run in self.runs]
        words = ["interrupted" if ending is None else ending.value for ending in endings]
        return {word: words.count(word) for word in sorted(set(words), key=lambda each: -words.count(each))}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    title: str
    metric: str
    mode: Mode
    parties: tuple[Party, ...]

    @property
    def deadline_s(self) -> float | None:
        """The common one; None: none, or different ones."""
        found = {party.limits.deadline_s for party in self.parties}
        return found.pop() if len(found) == 1 else None

    @property
    def budget_usd(self) -> float | None:
        found = {party.limits.budget_usd for party in self.parties}
        return found.pop() if len(found) == 1 else None


def compare(found: Sequence[FoundRun], tell: Tell = lambda _: None) -> RunComparison:
    """One run of each policy and folder is replayed for its terms; the others only give their history."""
    groups: dict[tuple[object, str], list[FoundRun]] = {}
    for each in found:
        groups.setdefault((each.folder.path, each.record.policy), []).append(each)
    labels = _labels([runs[0] for runs in groups.values()])
    parties: list[Party] = []
    known: HistoryTerms | None = None
    count = itertools.count(1)
    for label, runs in zip(labels, groups.values(), strict=True):
        status = reopen(runs[0])
        terms = terms_of(status.job)
        known = _same_metric(known or terms, terms, status)
        compared = []
        for each in runs:
            tell(f"reading run {next(count)} of {len(found)}")
            compared.append(ComparedRun(record=each.record, history=recall(each, terms)))
        standing = status.standing
        parties.append(
            Party(
                label=label,
                policy=standing.policy,
                limits=standing.limits,
                predicted=standing.predicted,
                runs=tuple(compared),
            )
        )
    if known is None:
        raise JobError("no run to compare; expected at least one")
    names = list(dict.fromkeys(each.record.name for each in found))
    return RunComparison(title=", ".join(names), metric=known.metric, mode=known.mode, parties=tuple(parties))


def mean_of(values: Sequence[float]) -> Mean:
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Mean(value=statistics.fmean(values), error=error, count=len(values))


def _same_metric(known: HistoryTerms, terms: HistoryTerms, status: ReopenedRun) -> HistoryTerms:
    if (known.metric, known.mode) == (terms.metric, terms.mode):
        return known
    raise JobError(
        f"run {status.record.run} has the metric {terms.metric} ({terms.mode.value}), those before it have "
        f"{known.metric} ({known.mode.value}); only runs with the same metric can be compared"
    )


def _labels(firsts: Sequence[FoundRun]) -> list[str]:
    """As short as possible without duplicates."""
    candidates = (
        [each.record.policy for each in firsts],
        [f"{each.record.name}: {each.record.policy}" for each in firsts],
        [f"{each.record.policy} ({each.folder.run or each.folder.path.name})" for each in firsts],
        [f"{each.record.policy} ({each.folder.path})" for each in firsts],
    )
    return next((labels for labels in candidates if len(set(labels)) == len(labels)), candidates[-1])
