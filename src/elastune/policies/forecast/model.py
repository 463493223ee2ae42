"""What `forecast` learns in a run: the ranks of its trials, and what a doubling of the training brings.

A rung is a number of iterations: `first`, twice that, and so on. A trial is compared at the highest rung that
it has reached, with all trials that have a value there and can still train: one that is trained, or failed,
needs no share of what is left, and its successor has what it would have had. Scores are losses: less is
better.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from elastune.model.ids import TrialId

# A gang on several slots is less efficient than one slot; iterations cost so much more.
EFFICIENCY = 0.9
# With tens of thousands of trials the smallest share is so small that more are needed.
_BISECTIONS, _MOST_BISECTIONS = 40, 80
_WELL_ENOUGH = 0.01  # of the goal
# Pairs of values from which a gain is learned; fewer tell little.
_ENOUGH_GAINS = 3
# Of the gain of a doubling, the next one brings this part if no trial has shown more.
_FADING = 0.6
# The standard deviation of a normal distribution in units of its median absolute deviation.
_SD_PER_MAD = 1.4826
# Before any trial with the same score.
_NO_TRIAL = TrialId(-1)


@dataclass(slots=True)
class RankedRung:
    """The scores of the trials that have a value there, best first; without those that failed."""

    iterations: int
    ranked: list[tuple[float, TrialId]] = field(default_factory=list)
    scores: dict[TrialId, float] = field(default_factory=dict)
    trained: list[float] = field(default_factory=list)
    """Those of trials whose training is complete."""

    def record(self, trial: TrialId, score: float) -> None:
        """Only the first score counts: after a loss a trial may come a second time."""
        if trial not in self.scores:
            self.scores[trial] = score
            bisect.insort(self.ranked, (score, trial))

    def close(self, trial: TrialId, *, failed: bool) -> None:
        ranked = self.scores[trial], trial
        if failed:
            self.ranked.remove(ranked)
        else:
            bisect.insort(self.trained, ranked[0])

    def better_than(self, score: float) -> int:
        """Of those that can still train."""
        all_ = bisect.bisect_left(self.ranked, (score, _NO_TRIAL))
        return all_ - bisect.bisect_left(self.trained, score) if self.trained else all_


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderForecast:
    """What the leader is expected to reach. `spread` is a standard deviation."""

    trial: TrialId
    iterations: int
    score: float
    spread: float


class Ladder:
    def __init__(self, first: int) -> None:
        self.first = first
        self.rungs: list[RankedRung] = []
        self.highest: dict[TrialId, int] = {}  # the index of the highest rung that a trial has reached itself
        self.over: set[TrialId] = set()

    @property
    def measured(self) -> int:
        """Trials that have reached the first rung."""
        return len(self.highest)

    def record(self, trial: TrialId, scores: Sequence[float]) -> bool:
        """The scores of its iterations so far; True if it has reached another rung."""
        before = rung = self.highest.get(trial, -1)
        while len(scores) >= self.first << rung + 1:
            rung += 1
            self._rung(rung).record(trial, scores[(self.first << rung) - 1])
        if rung > before:
            self.highest[trial] = rung
        return rung > before

    def close(self, trial: TrialId, *, failed: bool) -> None:
        """Its training is over."""
        if trial in self.over:
            return
        self.over.add(trial)
        for rung in self.rungs[: self.highest.get(trial, -1) + 1]:
            rung.close(trial, failed=failed)

    def better_than(self, trial: TrialId) -> int:
        """How many that can still train are better, at the highest rung that this one has reached; all if it
        has none."""
        place = self.highest.get(trial)
        if place is None:
            return len(self.highest)
        rung = self.rungs[place]
        return rung.better_than(rung.scores[trial])

    def ranked(self, trials: Iterable[TrialId]) -> list[tuple[int, TrialId]]:
        """These trials with the number of those that are better, the best first."""
        better_than = self.better_than
        return sorted([(better_than(trial), trial) for trial in trials])

    def next_rung(self, iterations: int) -> int:
        """The first rung beyond so many iterations."""
        level = self.first
        while level <= iterations:
            level *= 2
        return level

    def forecast(self, trial: TrialId, scores: Sequence[float], iterations: int) -> LeaderForecast:
        """The best score so far plus the median gain of each doubling until `iterations`, as trials of this
        run have shown it; beyond what any has shown, gains fade. What is wrong with one gain is wrong with
        the next, too, so the spreads add up."""
        at, score, spread = len(scores), min(scores), 0.0
        while at < iterations:
            to = min(2 * at, iterations)
            gain, deviation = self._gain(at)
            share = math.log2(to / at)
            score, spread, at = score - share * gain, spread + share * deviation, to
        return LeaderForecast(trial=trial, iterations=at, score=score, spread=spread)

    def _gain(self, iterations: int) -> tuple[float, float]:
        """Of a doubling from there: the median of what the trials gained that did it, and the spread. Where
        none did, the gain may have faded or not, and the spread is as wide as that."""
        place = max(0, math.floor(math.log2(max(1.0, iterations / self.first))))
        for rung in range(min(place, len(self.rungs) - 2), -1, -1):
            low, high = self.rungs[rung], self.rungs[rung + 1]
            gains = [low.scores[t] - s for s, t in high.ranked]
            if len(gains) >= _ENOUGH_GAINS:
                middle = median(gains)
                spread = _SD_PER_MAD * median([abs(gain - middle) for gain in gains])
                gain, faded = max(0.0, middle), _FADING ** (place - rung)
                return gain * faded, spread + gain * (1.0 - faded)
        return 0.0, 0.0

    def _rung(self, place: int) -> RankedRung:
        while len(self.rungs) <= place:
            self.rungs.append(RankedRung(self.first << len(self.rungs)))
        return self.rungs[place]


Counts = npt.NDArray[Any]


def shares_of(better: Counts, sharpness: float) -> Counts:
    """What each trial deserves that so many others are better than: that of place j, from 0, is
    1 / (j + 1) ** sharpness.

    Those that as many are better than share their places and have the mean one. Else many trials with the
    same value, such as the accuracy of a guess, would each deserve as much as the first of them alone.
    """
    _, same, counts = np.unique(better, return_inverse=True, return_counts=True)
    places = np.cumsum(counts) - (counts + 1) / 2
    shares: Counts = (places[same] + 1.0) ** -sharpness
    return shares


def iterations_of_best(shares: Counts, done: Counts, goal: int, work: float) -> float:
    """The iterations that a trial with a share of 1 deserves, so that all of them together need `work` more.

    None deserves more than the goal. So the answer may exceed the goal.
    """
    low, high = 0.0, goal / float(shares.min()) if shares.size else 0.0
    for step in range(_MOST_BISECTIONS):
        if step >= _BISECTIONS and high - low <= _WELL_ENOUGH * goal:
            break
        middle = (low + high) / 2
        needed = np.maximum(np.minimum(middle * shares, goal) - done, 0.0).sum() / EFFICIENCY
        low, high = (middle, high) if needed <= work else (low, middle)
    return low
