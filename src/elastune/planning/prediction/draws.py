"""The random numbers behind a prediction, drawn once and shared by all plans (common random numbers).

A draw belongs to a stage and a trial or node, never to a plan: compared plans use the same draws, and the
same seed gives the same prediction. Draws come in blocks of samples, so that a stage of ten thousand trials
does not need a gigabyte. A stage of gangs draws one sum of iterations per trial. If models hop the trials
wait for each other after every epoch, so each epoch has draws of its own.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass

import numpy as np

from elastune.model.distributions import Array, Distribution, draw_sums, is_constant
from elastune.model.stages import Stage
from elastune.planning.prediction.plan import Workload

BLOCK = 512
CACHED_VALUES = 48_000_000


class _DrawKind(enum.IntEnum):
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
    """One block: rows are samples, columns trials (one column if it is the same for all trials)."""

    work_s: Array  # seconds of training at one slot
    overhead_s: Array  # gang start-up and save: the same at any size

    def durations(self, speedup: float) -> Array:
        return self.work_s / speedup + self.overhead_s

    def duration(self, row: int, trial: int, speedup: float) -> float:
        overhead = np.broadcast_to(self.overhead_s, self.work_s.shape)
        return float(self.work_s[row, trial] / speedup + overhead[row, trial])


@dataclass(frozen=True, slots=True)
class RoundDraws:
    """Epochs of a hopping stage in one block, for all plans: rows are samples, columns epochs."""

    longest_s: Array  # the longest trial at one slot, start-up and save included
    total_s: Array  # the same of all trials together
    longest_sum_s: Array  # over the epochs
    total_sum_s: Array
    work_sum_s: Array  # of all trials together, training alone


def epoch_spans(stage: Stage) -> tuple[tuple[range, int], ...]:
    """Epochs with the number of trials in each; in the middle of a run some owe less work."""
    ends = sorted(set(stage.work) - {0})
    spans = (range(start, end) for start, end in itertools.pairwise([0, *ends]))
    return tuple((span, sum(work > span.start for work in stage.work)) for span in spans)


class Draws:
    """All latencies of a workload, for `samples` samples. One sample suffices if nothing is random."""

    def __init__(self, workload: Workload, *, samples: int, seed: int, stream: int = 0) -> None:
        self._workload = workload
        self._entropy = (seed, stream)
        self.samples = 1 if workload.is_deterministic else samples
        self.blocks = tuple(
            slice(start, min(start + BLOCK, self.samples)) for start in range(0, self.samples, BLOCK)
        )
        self._cached: dict[tuple[int, int], TrainDraws] = {}
        self._cached_rounds: dict[tuple[int, int], tuple[RoundDraws, ...]] = {}
        self._cached_values = 0
        self._kept: dict[tuple[_DrawKind, int, int], Array] = {}
        self._last_spread: tuple[tuple[int, int], Array] | None = None

    def train(self, stage: int, block: int) -> TrainDraws:
        """The trials of a stage, in one block of samples."""
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
        counts = np.asarray(self._workload.stages[stage].work, dtype=np.int64)
        rng = self._rng(_DrawKind.WORK, stage, block)
        work = draw_sums(profile.iteration, rng, counts, self._rows(block))
        if profile.spread:
            work = work * self._spread(stage, block)
        startup = self._per_trial(profile.startup, _DrawKind.STARTUP, stage, block)
        save = self._per_trial(profile.save, _DrawKind.SAVE, stage, block)
        return TrainDraws(work, startup + save + self._transfers_s(stage))

    def _rows(self, block: int) -> int:
        return self.blocks[block].stop - self.blocks[block].start

    def rounds(self, stage: int, block: int) -> tuple[RoundDraws, ...]:
        """The epochs of a hopping stage, in one block of samples; one for each of its spans."""
        key = (stage, block)
        if key in self._cached_rounds:
            return self._cached_rounds[key]
        spans = epoch_spans(self._workload.stages[stage])
        rounds = tuple(self._draw_rounds(stage, block, epochs) for epochs, _ in spans)
        values = sum(2 * each.total_s.size for each in rounds)
        if self._cached_values + values <= CACHED_VALUES:
            self._cached_rounds[key] = rounds
            self._cached_values += values
        return rounds

    def _draw_rounds(self, stage: int, block: int, epochs: range) -> RoundDraws:
        longest, total = np.empty((2, self._rows(block), len(epochs)))
        work = np.zeros(len(total))
        for column, epoch in enumerate(epochs):
            draws = self.epoch(stage, epoch, block)
            durations = draws.durations(1.0)
            longest[:, column] = durations.max(axis=1)
            total[:, column] = durations.sum(axis=1)
            work += draws.work_s.sum(axis=1)
        return RoundDraws(longest, total, longest.sum(axis=1), total.sum(axis=1), work)

    def epoch(self, stage: int, epoch: int, block: int) -> TrainDraws:
        """One epoch of trials that hop; columns are the trials that still take part, in their order."""
        # Every trial starts up at each of its many visits, so their mean suffices, and saves at the end.
        profile = self._workload.profile
        active = np.flatnonzero(np.asarray(self._workload.stages[stage].work) > epoch)
        at = (stage, block, epoch)
        work = self._per_visitor(profile.iteration, _DrawKind.WORK, at, active.size)
        if profile.spread:
            work = work * self._spread(stage, block)[:, active]
        overhead = self._per_visitor(profile.save, _DrawKind.SAVE, at, active.size) + profile.transfer_s
        hopping = self._workload.hopping
        overhead = overhead + (hopping.visits if hopping else 1) * profile.startup.mean
        if epoch == 0:
            overhead = overhead + self._reads_s(stage)
        return TrainDraws(work, overhead)

    def together(self, stage: int, epochs: range, block: int) -> TrainDraws:
        """The trials left at the first of the epochs: each trains to its end without a break, as a gang."""
        owed = np.asarray(self._workload.stages[stage].work)
        left = owed[owed > epochs.start]
        work = np.zeros((self._rows(block), left.size))
        for epoch in epochs:
            work[:, left > epoch] += self.epoch(stage, epoch, block).work_s
        return TrainDraws(work, self.gang_overhead_s(stage, epochs.start, block))

    def gang_overhead_s(self, stage: int, epoch: int, block: int) -> Array:
        """Start-up and save of the trials that train together from an epoch on."""
        profile = self._workload.profile
        trials = sum(work > epoch for work in self._workload.stages[stage].work)
        at = (stage, block, epoch)
        startup = self._per_visitor(profile.startup, _DrawKind.STARTUP, at, trials)
        save = self._per_visitor(profile.save, _DrawKind.SAVE, at, trials)
        reads_s = profile.transfer_s if epoch else self._reads_s(stage)
        overhead: Array = startup + save + profile.transfer_s + reads_s
        return overhead

    def _per_visitor(
        self, latency: Distribution, kind: _DrawKind, at: tuple[int, int, int], trials: int
    ) -> Array:
        """Of each trial in one epoch; `at` is stage, block, epoch."""
        shape = (self._rows(at[1]), trials)
        if is_constant(latency):
            return np.full(shape, latency.mean)
        return latency.draw(self._rng(kind, *at), shape)

    def _spread(self, stage: int, block: int) -> Array:
        """The slowdown of each trial in the whole stage; only the last is kept, for the next epochs."""
        key = (stage, block)
        if self._last_spread is None or self._last_spread[0] != key:
            shape = (self._rows(block), self._workload.stages[stage].trials)
            factors = self._workload.profile.spread_factor.draw(self._rng(_DrawKind.SPREAD, *key), shape)
            self._last_spread = (key, factors)
        return self._last_spread[1]

    def constant_overhead_s(self, stage: int) -> float | None:
        """Gang start-up and save if they never vary, else None."""
        profile = self._workload.profile
        if is_constant(profile.startup) and is_constant(profile.save):
            return profile.startup.mean + profile.save.mean + self._transfers_s(stage)
        return None

    def _transfers_s(self, stage: int) -> float:
        """A checkpoint is written at the end and, if there is one, read at the start."""
        return self._workload.profile.transfer_s + self._reads_s(stage)

    def _reads_s(self, stage: int) -> float:
        return self._workload.profile.transfer_s if stage > 0 or self._workload.resumes else 0.0

    def _per_trial(self, latency: Distribution, kind: _DrawKind, stage: int, block: int) -> Array:
        if is_constant(latency):
            return np.full((1, 1), latency.mean)
        shape = (self._rows(block), self._workload.stages[stage].trials)
        return latency.draw(self._rng(kind, stage, block), shape)

    def sync_s(self, stage: int) -> Array:
        return self._once(_DrawKind.SYNC, stage, self._workload.profile.sync)

    def queue_s(self, stage: int) -> Array:
        return self._once(_DrawKind.QUEUE, stage, self._workload.cluster.queue)

    def _once(self, kind: _DrawKind, stage: int, latency: Distribution) -> Array:
        key = (kind, stage, 0)
        if key not in self._kept:
            self._kept[key] = latency.draw(self._rng(kind, stage), (self.samples,))
        return self._kept[key]

    def slowest_init_s(self, stage: int, nodes: int) -> Array:
        """The INIT of the slowest of `nodes` new nodes: the largest of n uniforms is `u ** (1 / n)`."""
        latency = self._workload.cluster.init
        if is_constant(latency):
            return np.full(self.samples, latency.mean)
        key = (_DrawKind.INIT, stage, nodes)
        if key not in self._kept:
            uniform = self._rng(_DrawKind.INIT, stage).random(self.samples)
            self._kept[key] = latency.quantile(uniform ** (1.0 / nodes))
        return self._kept[key]

    def inits_s(self, stage: int, nodes: int) -> Array:
        """INIT of each new node, slowest first: (nodes, samples). Row 0 is `slowest_init_s`.

        The k-th largest of n uniforms is the one before it times `u ** (1 / (n - k + 1))`, so the rows are
        independent nodes in descending order.
        """
        latency = self._workload.cluster.init
        if is_constant(latency):
            return np.full((nodes, self.samples), latency.mean)
        uniform = self._rng(_DrawKind.INIT, stage).random((nodes, self.samples))
        descending = np.cumprod(uniform ** (1.0 / np.arange(nodes, 0, -1))[:, None], axis=0)
        return latency.quantile(np.asarray(descending, dtype=np.float64))

    def _rng(self, kind: _DrawKind, stage: int, block: int = 0, *epoch: int) -> np.random.Generator:
        return np.random.default_rng([*self._entropy, int(kind), stage, block, *epoch])
