"""The random numbers of a workload: drawn once for all plans, both kinds of survivors, and previews.

Large tables of them are expensive. So a stage of many trials has fewer rows than there are samples, used in
turn (over many trials chance averages out), and latencies have still fewer rows, each of which is combined
with the speeds of the trials in several rows. Rows come in blocks: a stage of a hundred thousand trials does
not need a gigabyte.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elastune.model.distributions import Array, Distribution, draw_sums, is_constant
from elastune.planning.prediction.plan import Workload
from elastune.planning.prediction.survivors import SurvivorFactors, Survivors, first_factors

BLOCK = 512
CACHED_VALUES = 24_000_000


class AffordableRows(NamedTuple):
    """Rows of a table with a column for each trial: the more trials, the fewer rows."""

    values: int
    least: int = 64
    most: int | None = None

    def of(self, trials: int) -> int:
        rows = max(self.least, self.values // trials)
        return rows if self.most is None else min(rows, self.most)

    def drawn_for(self, trials: int) -> int:
        """A power of two, so that blocks fit. Below a block the rows fall with the root of the trials."""
        rows = self.values / trials
        if rows < BLOCK:
            rows = math.sqrt(rows * BLOCK)
        return max(self.least, 1 << math.floor(math.log2(rows)))


_ROWS = AffordableRows(values=2_097_152)
_LATENCY_ROWS = AffordableRows(values=1_048_576)


class DrawKind(enum.IntEnum):
    """Names the independent random streams of a stage. Numbers are part of the seed: never reuse one."""

    WORK = 1
    SPREAD = 2
    STARTUP = 3
    SAVE = 4
    SYNC = 5
    QUEUE = 6
    INIT = 7
    RANK = 8
    REPEAT = 9


@dataclass(frozen=True, slots=True)
class TrainDraws:
    """One block: rows are samples, columns trials (one column if it is the same for all trials)."""

    work_s: Array  # seconds of training at one slot
    start_s: Array  # of the gang: connect and load, the same at any size; none if the gang stays
    save_s: Array
    repeat_s: Array | None = None  # of iterations trained again at one slot; none if the gang stays

    def training_s(self, *, kept: bool = False) -> Array:
        """At one slot."""
        return self.work_s if kept or self.repeat_s is None else self.work_s + self.repeat_s

    def durations(self, speedup: float, *, kept: bool = False) -> Array:
        overhead = self.save_s if kept else self.start_s + self.save_s
        return self.training_s(kept=kept) / speedup + overhead

    def duration(self, row: int, trial: int, speedup: float, *, kept: bool = False) -> float:
        work, start, save = (
            np.broadcast_to(part, self.work_s.shape)[row, trial]
            for part in (self.work_s, self.start_s, self.save_s)
        )
        repeat = None if self.repeat_s is None else self.repeat_s[row, trial]
        return float(TrainDraws(work, start, save, repeat).durations(speedup, kept=kept))

    def rows(self, rows: slice) -> TrainDraws:
        work, start, save = (
            part if len(part) == 1 else part[rows] for part in (self.work_s, self.start_s, self.save_s)
        )
        return TrainDraws(work, start, save, None if self.repeat_s is None else self.repeat_s[rows])

    def slowed_by(self, factors: Array) -> TrainDraws:
        """Trials that train so many times as long as the average."""
        repeat = None if self.repeat_s is None else self.repeat_s * factors
        return replace(self, work_s=self.work_s * factors, repeat_s=repeat)


class RandomNumbers:
    """Of one workload, for at most `samples` samples."""

    def __init__(self, workload: Workload, *, samples: int, seed: int, stream: int) -> None:
        self._workload = workload
        self._samples = samples
        self._entropy = (seed, stream)
        most_trials = max(stage.trials for stage in workload.stages)
        self.block = min(BLOCK, _LATENCY_ROWS.drawn_for(most_trials))
        """Rows of a block, all of which use the same rows of latencies and of factors."""
        self._latencies: dict[tuple[int, int], TrainDraws] = {}
        self._cached_values = 0
        self._first: Array | None = None
        self._factors: dict[Survivors, SurvivorFactors] = {}

    def rows(self, stage: int) -> int:
        """Samples that a stage has of its own."""
        if self._workload.hopping is not None:
            return self._samples
        return self._affordable(_ROWS if self._workload.speeds_differ else _LATENCY_ROWS, stage)

    def _affordable(self, rows: AffordableRows, stage: int) -> int:
        return min(self._samples, rows.drawn_for(self._workload.stages[stage].trials))

    def latencies(self, stage: int, block: int) -> TrainDraws:
        """As if all trials had the same speed."""
        block %= -(-self._affordable(_LATENCY_ROWS, stage) // self.block)
        key = (stage, block)
        if key in self._latencies:
            return self._latencies[key]
        draws = self._draw_latencies(stage, block)
        if self._cached_values + draws.work_s.size <= CACHED_VALUES:
            self._latencies[key] = draws
            self._cached_values += draws.work_s.size
        return draws

    def _draw_latencies(self, stage: int, block: int) -> TrainDraws:
        profile, work = self._workload.profile, self._workload.stages[stage].work
        shape = (min(self.block, self.rows(stage) - block * self.block), len(work))
        rng = self.rng(DrawKind.WORK, stage, block)
        counts = np.asarray(work, dtype=np.int64) + self._again(stage, kept=True)
        sums = draw_sums(profile.iteration, rng, counts, shape[0])
        repeat = None
        if (again := self._again(stage, kept=False) - self._again(stage, kept=True)).any():
            repeat = draw_sums(profile.iteration, self.rng(DrawKind.REPEAT, stage, block), again, shape[0])

        def per_trial(latency: Distribution, kind: DrawKind) -> Array:
            if is_constant(latency):
                return np.full((1, 1), latency.mean)
            return latency.draw(self.rng(kind, stage, block), shape)

        startup = per_trial(profile.startup, DrawKind.STARTUP) + self._workload.reads_s(stage)
        save = per_trial(profile.save, DrawKind.SAVE) + profile.transfer_s
        return TrainDraws(sums, startup, save, repeat)

    def _again(self, stage: int, *, kept: bool) -> npt.NDArray[np.int64]:
        """Iterations that each trial of a stage trains again."""
        return np.asarray(self._workload.repeated(stage, kept=kept) or 0, dtype=np.int64)

    def factors(self, survivors: Survivors) -> SurvivorFactors:
        if self._first is None:
            self._first = first_factors(self._workload, self.rng(DrawKind.SPREAD, 0), self.rows(0))
        if survivors not in self._factors:
            shuffle = self.rng(DrawKind.RANK, 0) if self._workload.speeds else None
            self._factors[survivors] = SurvivorFactors.of(self._first, survivors, shuffle)
        return self._factors[survivors]

    def rng(self, kind: DrawKind, stage: int, block: int = 0, *epoch: int) -> np.random.Generator:
        return np.random.default_rng([*self._entropy, int(kind), stage, block, *epoch])
