"""The random numbers behind a prediction, drawn once and shared by all plans (common random numbers).

A draw belongs to a stage and a trial or node, never to a plan: two plans that are compared meet the same
luck, and the same seed gives the same prediction. Draws come in blocks of samples, so that a stage of ten
thousand trials does not need a gigabyte.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass

import numpy as np

from elastune.prediction.workload import Workload
from elastune.profiles.distributions import Array, Distribution, draw_sums, is_constant

BLOCK = 512
CACHED_VALUES = 48_000_000


class _Kind(enum.IntEnum):
    """Names the independent random streams of a stage. Numbers are part of the seed: never reuse one."""

    WORK = 1
    SPREAD = 2
    STARTUP = 3
    SAVE = 4
    SYNC = 5
    QUEUE = 6
    INIT = 7


@dataclass(frozen=True, slots=True)
class TrainDraws:
    """One block: rows are samples, columns trials (one column where it is the same for all trials)."""

    work_s: Array
    """Seconds of training at one slot."""
    overhead_s: Array
    """Gang start-up and save: the same at any size."""

    def durations(self, speedup: float) -> Array:
        return self.work_s / speedup + self.overhead_s

    def duration(self, row: int, trial: int, speedup: float) -> float:
        overhead = np.broadcast_to(self.overhead_s, self.work_s.shape)
        return float(self.work_s[row, trial] / speedup + overhead[row, trial])


class Draws:
    """All latencies of a workload, for `samples` samples. One sample suffices when nothing is random."""

    def __init__(self, workload: Workload, *, samples: int, seed: int, stream: int = 0) -> None:
        self._workload = workload
        self._entropy = (seed, stream)
        self.samples = 1 if workload.is_deterministic else samples
        self.blocks = tuple(
            slice(start, min(start + BLOCK, self.samples)) for start in range(0, self.samples, BLOCK)
        )
        self._cached: dict[tuple[int, int], TrainDraws] = {}
        self._cached_values = 0

    def train(self, stage: int, block: int) -> TrainDraws:
        """What the trials of a stage take, in one block of samples."""
        key = (stage, block)
        if key in self._cached:
            return self._cached[key]
        draws = self._draw_train(stage, block)
        if self._cached_values + draws.work_s.size <= CACHED_VALUES:
            self._cached[key] = draws
            self._cached_values += draws.work_s.size
        return draws

    def _draw_train(self, stage: int, block: int) -> TrainDraws:
        profile = self._workload.profile
        span = self.blocks[block]
        rows = span.stop - span.start
        counts = np.asarray(self._workload.stages[stage].work, dtype=np.int64)
        work = draw_sums(profile.iteration, self._rng(_Kind.WORK, stage, block), counts, rows)
        if profile.spread:
            rng = self._rng(_Kind.SPREAD, stage, block)
            work = work * profile.spread_factor.draw(rng, (rows, counts.size))
        overhead = self._per_trial(profile.startup, _Kind.STARTUP, stage, block) + self._per_trial(
            profile.save, _Kind.SAVE, stage, block
        )
        return TrainDraws(work, overhead + self._transfers_s(stage))

    def constant_overhead_s(self, stage: int) -> float | None:
        """Gang start-up and save where they never vary; None where they do."""
        profile = self._workload.profile
        if is_constant(profile.startup) and is_constant(profile.save):
            return profile.startup.mean + profile.save.mean + self._transfers_s(stage)
        return None

    def _transfers_s(self, stage: int) -> float:
        """A checkpoint is written at the end and read at the start, unless there is none yet."""
        reads = stage > 0 or self._workload.resumes
        return self._workload.profile.transfer_s * (2 if reads else 1)

    def _per_trial(self, latency: Distribution, kind: _Kind, stage: int, block: int) -> Array:
        if is_constant(latency):
            return np.full((1, 1), latency.mean)
        span = self.blocks[block]
        shape = (span.stop - span.start, self._workload.stages[stage].trials)
        return latency.draw(self._rng(kind, stage, block), shape)

    @functools.cache  # noqa: B019  a Draws lives as long as the planning of one job
    def sync_s(self, stage: int) -> Array:
        return self._workload.profile.sync.draw(self._rng(_Kind.SYNC, stage), (self.samples,))

    @functools.cache  # noqa: B019
    def queue_s(self, stage: int) -> Array:
        return self._workload.cluster.queue.draw(self._rng(_Kind.QUEUE, stage), (self.samples,))

    @functools.cache  # noqa: B019
    def slowest_init_s(self, stage: int, nodes: int) -> Array:
        """The INIT of the slowest of `nodes` new nodes: the largest of n uniforms is `u ** (1 / n)`."""
        latency = self._workload.cluster.init
        if is_constant(latency):
            return np.full(self.samples, latency.mean)
        uniform = self._rng(_Kind.INIT, stage).random(self.samples)
        return latency.quantile(uniform ** (1.0 / nodes))

    def inits_s(self, stage: int, nodes: int) -> Array:
        """INIT of each new node, slowest first: (nodes, samples). Row 0 is `slowest_init_s`.

        The k-th largest of n uniforms is the one before it times `u ** (1 / (n - k + 1))`, so the rows are
        independent nodes in descending order.
        """
        latency = self._workload.cluster.init
        if is_constant(latency):
            return np.full((nodes, self.samples), latency.mean)
        uniform = self._rng(_Kind.INIT, stage).random((nodes, self.samples))
        exponents = 1.0 / np.arange(nodes, 0, -1)
        descending = np.cumprod(uniform ** exponents[:, None], axis=0)
        return latency.quantile(np.asarray(descending, dtype=np.float64))

    def _rng(self, kind: _Kind, stage: int, block: int = 0) -> np.random.Generator:
        return np.random.default_rng([*self._entropy, int(kind), stage, block])
