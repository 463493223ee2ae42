"""How much longer than the average each trial trains, and which trials go on to the next stage.

Every trial has a speed of its own, which it keeps from stage to stage: `speeds` of the workload or, where
nothing is known of a trial, the spread of the profile.
"""

from __future__ import annotations

import enum

import numpy as np

from elastune.model.distributions import Array
from elastune.planning.prediction.plan import Workload


class Survivors(enum.Enum):
    """Which trials go on to the next stage. It is not known before the run, so both are computed."""

    ANY = "any"  # speed has nothing to do with quality
    SLOWEST = "slowest"  # the slower, the better: the worst case for time and money


def first_factors(workload: Workload, rng: np.random.Generator, rows: int) -> Array:
    """Of the trials of the first stage, in their order; rows are samples."""
    speeds = workload.trial_speeds
    sds = np.sqrt(np.log1p(np.array([speed.spread for speed in speeds]) ** 2))
    factors = rng.standard_normal((rows, len(speeds)))
    factors *= sds
    factors += np.log(np.array([speed.factor for speed in speeds])) - sds**2 / 2
    return np.exp(factors, out=factors)


class SurvivorFactors:
    """The factors of all stages, from those of the first one."""

    def __init__(self, first: Array, ranked: Array, survivors: Survivors) -> None:
        self._first = first
        self._ranked = ranked
        self._survivors = survivors

    @classmethod
    def of(
        cls, first: Array, survivors: Survivors, shuffle: np.random.Generator | None = None
    ) -> SurvivorFactors:
        """`shuffle`: the trials of the first stage are not alike, so any of them may survive."""
        ranked = first
        if survivors is Survivors.SLOWEST:
            ranked = np.sort(first, axis=1)[:, ::-1]
        elif shuffle is not None:
            ranked = np.take_along_axis(first, np.argsort(shuffle.random(first.shape), axis=1), axis=1)
        return cls(first, ranked, survivors)

    def at(self, stage: int, trials: int, rows: slice) -> Array:
        """Of the trials of a stage in consecutive rows, which must not pass the end of the first stage's."""
        again, start = divmod(rows.start, len(self._first))
        here = slice(start, start + rows.stop - rows.start)
        if stage == 0:
            return self._first[here]
        width = self._first.shape[1]
        if trials > width:  # some wait at the barrier in the middle of a run: they are like the others
            return np.asarray(self._ranked[here].take(np.arange(trials) % width, axis=1))
        # A row that is used again has other survivors, unless these are the slowest.
        first = again * trials % (width - trials + 1) if self._survivors is Survivors.ANY else 0
        return self._ranked[here, first : first + trials]
