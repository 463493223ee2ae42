"""Where trials of Successive Halving are compared: barriers, the rungs of ASHA, and those of HyperSched."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from elastune.core.trials import Trial
from elastune.model.ids import TrialId
from elastune.model.quantities import Eta, Iterations, Needed, rational
from elastune.model.stages import Spec


class HalvingOptions:
    min_iterations: Iterations = 1
    max_iterations: Annotated[Iterations, Needed("the total iterations of the best trial, such as 50")]
    eta: Eta = 3


def is_at_barrier(trial: Trial, goal: int) -> bool:
    """Whether the trial has trained to the goal and is saved, or is out."""
    return trial.phase.is_over or (trial.activity is None and trial.has_done(goal))


def rung_levels(min_iterations: int, max_iterations: int, eta: float) -> list[int]:
    """r, r eta, r eta^2, ..., rounded down, and at the end R. Levels that rounding makes equal are one."""
    levels: list[int] = []
    level, factor = rational(min_iterations), rational(eta)
    while level < max_iterations:
        if (whole := level // 1) not in levels[-1:]:
            levels.append(whole)
        level *= factor
    return [*levels, max_iterations]


@dataclass(slots=True)
class Rung:
    """Trials that trained `iterations` iterations, and which of them wait for promotion. Scores are negated
    where more is better. All lists are heaps: a million trials take no longer each than a thousand."""

    iterations: int
    best: list[tuple[float, TrialId]] = field(default_factory=list)
    """The best 1/eta when promotion was last asked for, the worst first (all negated)."""
    others: list[tuple[float, TrialId]] = field(default_factory=list)
    """The rest, best first."""
    waiting: list[tuple[float, TrialId]] = field(default_factory=list)  # a heap of those not promoted
    known: set[TrialId] = field(default_factory=set)

    def record(self, score: float, trial: TrialId) -> None:
        """Only the first value counts: after a loss a trial may come a second time."""
        if trial in self.known:
            return
        self.known.add(trial)
        entry = score, trial
        heapq.heappush(self.waiting, entry)
        if self.best and (-score, -trial) > self.best[0]:
            worse = heapq.heapreplace(self.best, (-score, TrialId(-trial)))
            entry = -worse[0], TrialId(-worse[1])
        heapq.heappush(self.others, entry)

    def promote(self, eta: float) -> TrialId | None:
        """Remove and return the best waiting trial, if it is among the best 1/eta."""
        if not self.waiting:
            return None
        share = len(self.known) // rational(eta)
        while len(self.best) < share:
            score, trial = heapq.heappop(self.others)
            heapq.heappush(self.best, (-score, TrialId(-trial)))
        score, trial = self.waiting[0]
        if not share or (-score, -trial) < self.best[0]:
            return None
        heapq.heappop(self.waiting)
        return trial


@dataclass(slots=True)
class SeenRung:
    """`scores` of all trials that reached it, best first; negated where more is better."""

    iterations: int
    scores: list[float] = field(default_factory=list)
    of: dict[TrialId, float] = field(default_factory=dict)
    waiting: list[tuple[float, TrialId]] = field(default_factory=list)  # paused and not promoted; best first

    def record(self, trial: TrialId, score: float) -> None:
        if trial not in self.of:
            self.of[trial] = score
            bisect.insort(self.scores, score)

    def is_among_best(self, trial: TrialId, eta: float, *, speculative: bool) -> bool:
        """Among the best 1/eta of those seen: rounded up, so that the first goes on, or down."""
        count, share = len(self.scores), rational(eta)
        best = -(-count // share) if speculative else count // share
        return best > 0 and self.of[trial] <= self.scores[best - 1]

    def pause(self, trial: TrialId) -> None:
        entry = self.of[trial], trial
        place = bisect.bisect_left(self.waiting, entry)
        if self.waiting[place : place + 1] != [entry]:
            self.waiting.insert(place, entry)

    def forget(self, trial: TrialId) -> None:
        """It waits here no longer."""
        if trial in self.of:
            entry = self.of[trial], trial
            place = bisect.bisect_left(self.waiting, entry)
            if self.waiting[place : place + 1] == [entry]:
                del self.waiting[place]


def group_trials(spec: Spec, trials: Sequence[TrialId]) -> dict[TrialId, int]:
    """The bracket of each trial, in the order in which they were drawn; empty: there is one bracket."""
    if not spec.brackets:
        return {}
    groups = [group for group, count in enumerate(spec.brackets[0]) for _ in range(count)]
    return dict(zip(trials, groups, strict=False))


def keep_best(spec: Spec, stage: int, ranked: Sequence[Trial], groups: dict[TrialId, int]) -> list[Trial]:
    """The trials of a stage: the best of those before it, in each bracket."""
    if not spec.brackets:
        return list(ranked[: spec.stages[stage].trials])
    left = list(spec.brackets[stage])
    kept = []
    for trial in ranked:
        group = groups[trial.number]
        if left[group]:
            left[group] -= 1
            kept.append(trial)
    return kept
