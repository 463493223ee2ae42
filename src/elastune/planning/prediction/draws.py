"""The latencies of a prediction, sample by sample, the same for all plans (common random numbers).

A draw belongs to a stage and a trial or node, never to a plan: compared plans use the same draws, and the
same seed gives the same prediction. A stage of gangs draws one sum of iterations per trial. If models hop
the trials wait for each other after every epoch, so each epoch has draws of its own.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from elastune.model.distributions import Array, Distribution, is_constant
from elastune.model.stages import Stage
from elastune.planning.prediction.plan import Workload
from elastune.planning.prediction.random_numbers import CACHED_VALUES, DrawKind, RandomNumbers, TrainDraws
from elastune.planning.prediction.survivors import Survivors

_ALL = slice(None)


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

    def __init__(
        self,
        workload: Workload,
        *,
        samples: int,
        seed: int = 0,
        stream: int = 0,
        survivors: Survivors = Survivors.ANY,
        numbers: RandomNumbers | None = None,
    ) -> None:
        self._workload = workload
        self._survivors = survivors
        self.samples = 1 if workload.is_deterministic else samples
        self._numbers = numbers or RandomNumbers(workload, samples=self.samples, seed=seed, stream=stream)
        self._cached_rounds: dict[tuple[int, int], tuple[RoundDraws, ...]] = {}
        self._cached_values = 0
        self._kept: dict[tuple[DrawKind, int, int], Array] = {}

    def if_slowest_survive(self) -> Draws | None:
        """The same draws for the worst case; None: this is it, or it makes no difference."""
        workload = self._workload
        matters = workload.worst_case and workload.speeds_differ and len(workload.stages) > 1
        if self._survivors is Survivors.SLOWEST or not matters:
            return None
        return Draws(workload, samples=self.samples, survivors=Survivors.SLOWEST, numbers=self._numbers)

    def head(self, samples: int) -> Draws:
        """The same for the first samples."""
        return Draws(self._workload, samples=samples, survivors=self._survivors, numbers=self._numbers)

    def rows(self, stage: int) -> int:
        """Samples that a stage has of its own; sample s is row s modulo this."""
        return min(self.samples, self._numbers.rows(stage))

    def blocks(self, stage: int) -> tuple[slice, ...]:
        """The rows of a stage in pieces."""
        rows, block = self.rows(stage), self._numbers.block
        return tuple(slice(start, min(start + block, rows)) for start in range(0, rows, block))

    def place(self, stage: int, sample: int) -> tuple[int, int]:
        """Block and row in the block of a sample."""
        return divmod(sample % self.rows(stage), self._numbers.block)

    def per_sample(self, rows: Array) -> Array:
        """A value for every sample, from one for every row of a stage."""
        return rows if rows.size == self.samples else np.resize(rows, self.samples)

    def train(self, stage: int, block: int, rows: slice = _ALL) -> TrainDraws:
        """The trials of a stage, in some rows of one block of samples."""
        within = slice(*rows.indices(self._rows_in(stage, block)))
        latencies = self._numbers.latencies(stage, block).rows(within)
        if not self._workload.speeds_differ:
            return latencies
        return latencies.slowed_by(self._factors(stage, block)[within])

    def _rows_in(self, stage: int, block: int) -> int:
        return min(self._numbers.block, self.rows(stage) - block * self._numbers.block)

    def _factors(self, stage: int, block: int) -> Array:
        """How much longer each trial of a stage trains than the average."""
        trials = self._workload.stages[stage].trials
        return self._numbers.factors(self._survivors).at(stage, trials, self.blocks(stage)[block])

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
        longest, total = np.empty((2, self._rows_in(stage, block), len(epochs)))
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
        work = self._per_visitor(profile.iteration, DrawKind.WORK, at, active.size)
        if self._workload.speeds_differ:
            work = work * self._factors(stage, block)[:, active]
        overhead = self._per_visitor(profile.save, DrawKind.SAVE, at, active.size) + profile.transfer_s
        hopping = self._workload.hopping
        overhead = overhead + (hopping.visits if hopping else 1) * profile.startup.mean
        if epoch == 0:
            overhead = overhead + self._workload.reads_s(stage)
        return TrainDraws(work, overhead, np.zeros((1, 1)))

    def together(self, stage: int, epochs: range, block: int) -> TrainDraws:
        """The trials left at the first of the epochs: each trains to its end without a break, as a gang."""
        owed = np.asarray(self._workload.stages[stage].work)
        left = owed[owed > epochs.start]
        work = np.zeros((self._rows_in(stage, block), left.size))
        for epoch in epochs:
            work[:, left > epoch] += self.epoch(stage, epoch, block).work_s
        return TrainDraws(work, self.gang_overhead_s(stage, epochs.start, block), np.zeros((1, 1)))

    def gang_overhead_s(self, stage: int, epoch: int, block: int) -> Array:
        """Start-up and save of the trials that train together from an epoch on."""
        profile = self._workload.profile
        trials = sum(work > epoch for work in self._workload.stages[stage].work)
        at = (stage, block, epoch)
        startup = self._per_visitor(profile.startup, DrawKind.STARTUP, at, trials)
        save = self._per_visitor(profile.save, DrawKind.SAVE, at, trials)
        reads_s = profile.transfer_s if epoch else self._workload.reads_s(stage)
        overhead: Array = startup + save + profile.transfer_s + reads_s
        return overhead

    def _per_visitor(
        self, latency: Distribution, kind: DrawKind, at: tuple[int, int, int], trials: int
    ) -> Array:
        """Of each trial in one epoch; `at` is stage, block, epoch."""
        shape = (self._rows_in(*at[:2]), trials)
        if is_constant(latency):
            return np.full(shape, latency.mean)
        return latency.draw(self._numbers.rng(kind, *at), shape)

    def constant_overhead_s(self, stage: int, *, kept: bool = False) -> float | None:
        """Gang start-up, unless gangs are `kept`, and save, if neither varies; else None."""
        profile = self._workload.profile
        if not is_constant(profile.save) or not (kept or is_constant(profile.startup)):
            return None
        start_s = 0.0 if kept else profile.startup.mean + self._workload.reads_s(stage)
        return start_s + profile.save.mean + profile.transfer_s

    def sync_s(self, stage: int) -> Array:
        return self._once(DrawKind.SYNC, stage, self._workload.profile.sync)

    def queue_s(self, stage: int) -> Array:
        return self._once(DrawKind.QUEUE, stage, self._workload.cluster.queue)

    def _once(self, kind: DrawKind, stage: int, latency: Distribution) -> Array:
        key = (kind, stage, 0)
        if key not in self._kept:
            self._kept[key] = latency.draw(self._numbers.rng(kind, stage), (self.samples,))
        return self._kept[key]

    def slowest_init_s(self, stage: int, nodes: int) -> Array:
        """The INIT of the slowest of `nodes` new nodes: the largest of n uniforms is `u ** (1 / n)`."""
        latency = self._workload.cluster.init
        if is_constant(latency):
            return np.full(self.samples, latency.mean)
        key = (DrawKind.INIT, stage, nodes)
        if key not in self._kept:
            uniform = self._numbers.rng(DrawKind.INIT, stage).random(self.samples)
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
        uniform = self._numbers.rng(DrawKind.INIT, stage).random((nodes, self.samples))
        descending = np.cumprod(uniform ** (1.0 / np.arange(nodes, 0, -1))[:, None], axis=0)
        return latency.quantile(np.asarray(descending, dtype=np.float64))
