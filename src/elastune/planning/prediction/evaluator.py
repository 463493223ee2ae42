"""The execution model for all samples at once, which planners call thousands of times.

The same model as `graph.py` (RubberBand section 4.2 and Algorithm 1), without the graph. Stages are
separated by barriers, so the completion time is the sum of the stages' critical paths, and the time of a
stage for a given allocation does not depend on the rest of the plan: it is computed once and cached.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from elastune.errors import InvariantError
from elastune.model.billing import bills_nodes, ingress_usd, node_rate, slot_rate, unused_each_s
from elastune.model.distributions import Array
from elastune.model.limits import Outcome
from elastune.planning.prediction.draws import BLOCK, Draws
from elastune.planning.prediction.hopping import epoch_rules, hop_through
from elastune.planning.prediction.plan import Allocation, Plan, Workload

VALUES_AT_ONCE = 8_000_000


def makespan(durations: Array, gangs: int) -> Array:
    """Rows are samples, columns trials in the order they start; a free gang takes the next trial.

    List scheduling, a batch of trials per step: with the gangs sorted by the time they get free, the next
    trials go to the first, second, ... gang as long as none of the trials just started ends before the
    next gang is free. If durations differ by less than a factor of two a batch is a whole round.
    """
    rows, trials = durations.shape
    if gangs >= trials:
        return np.asarray(durations.max(axis=1))
    if gangs == 1:
        return np.asarray(durations.sum(axis=1))
    # Rows are padded with trials that never end; `next_trial` points into the flat table.
    padded = np.concatenate([durations, np.full((rows, gangs), np.inf)], axis=1)
    next_trial = np.arange(rows) * padded.shape[1] + gangs
    after_last = np.arange(rows) * padded.shape[1] + trials
    free = np.sort(durations[:, :gangs], axis=1)
    ahead, active = np.arange(gangs), np.arange(rows)
    while active.size:
        now_free = free[active]
        batch = padded.take(next_trial[active, None] + ahead)
        ending = now_free + batch
        earliest = np.minimum.accumulate(ending, axis=1)
        safe = np.isfinite(batch)
        safe[:, 1:] &= now_free[:, 1:] <= earliest[:, :-1]
        taken = np.logical_and.accumulate(safe, axis=1)
        free[active] = np.sort(np.where(taken, ending, now_free), axis=1)
        next_trial[active] += taken.sum(axis=1)
        active = active[next_trial[active] < after_last[active]]
    return free[:, -1]


@dataclass(slots=True)
class _Cohort:
    """Nodes launched together."""

    nodes: int
    born_s: Array


class Evaluator:
    """Predicts time and cost of plans for one workload on one fixed set of samples."""

    def __init__(self, workload: Workload, draws: Draws) -> None:
        self.workload = workload
        self.draws = draws
        self._makespans: dict[tuple[int, Allocation], Array] = {}
        self._busy: dict[tuple[int, int], Array] = {}
        self._hops: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._work: dict[int, tuple[Array, Array]] = {}

    def makespan_s(self, stage: int, allocation: Allocation) -> Array:
        """From the first gang's start to the last trial's save, per sample."""
        if self.workload.hopping is not None:
            return self._hopping(stage, allocation.gangs)[0]
        key = (stage, allocation)
        if key not in self._makespans:
            if allocation.gangs == self.workload.stages[stage].trials:
                self._makespans[key] = self.longest_trial_s(stage, allocation.slots_per_trial)
            else:
                self._makespans[key] = self._queue_s(stage, allocation)
        return self._makespans[key]

    def longest_trial_s(self, stage: int, slots_per_trial: int) -> Array:
        """The longest trial of a stage with gangs of that size, per sample."""
        speedup = self.workload.profile.speedup.at(slots_per_trial)
        overhead = self.draws.constant_overhead_s(stage)
        if overhead is not None:
            return self._work_of(stage)[0] / speedup + overhead
        return np.concatenate([d.max(axis=1) for d in self._durations(stage, speedup)])

    def busy_slot_s(self, stage: int, allocation: Allocation) -> Array:
        """Slot-seconds in which the gangs of a stage start, train and save, per sample."""
        if self.workload.hopping is not None:
            return self._hopping(stage, allocation.gangs)[1]
        slots_per_trial = allocation.slots_per_trial
        key = (stage, slots_per_trial)
        if key not in self._busy:
            speedup = self.workload.profile.speedup.at(slots_per_trial)
            overhead = self.draws.constant_overhead_s(stage)
            if overhead is not None:
                trials = self.workload.stages[stage].trials
                seconds = self._work_of(stage)[1] / speedup + trials * overhead
            else:
                seconds = np.concatenate([d.sum(axis=1) for d in self._durations(stage, speedup)])
            self._busy[key] = slots_per_trial * seconds
        return self._busy[key]

    def _hopping(self, stage: int, workers: int) -> tuple[Array, Array]:
        """Seconds and busy slot-seconds of a stage whose models hop, per sample."""
        key = (stage, workers)
        if key not in self._hops:
            rules = epoch_rules(self.workload, stage, workers)
            seconds, busy = np.empty((2, self.draws.samples))
            for block, span in enumerate(self.draws.blocks):
                seconds[span], busy[span] = hop_through(self.draws, stage, block, rules)
            self._hops[key] = (seconds, busy)
        return self._hops[key]

    def _work_of(self, stage: int) -> tuple[Array, Array]:
        """Longest and total work at one slot, per sample: one pass serves gangs of every size."""
        if stage not in self._work:
            work = [self.draws.train(stage, block).work_s for block in range(len(self.draws.blocks))]
            self._work[stage] = (
                np.concatenate([block.max(axis=1) for block in work]),
                np.concatenate([block.sum(axis=1) for block in work]),
            )
        return self._work[stage]

    def _durations(self, stage: int, speedup: float) -> Iterator[Array]:
        for block in range(len(self.draws.blocks)):
            yield self.draws.train(stage, block).durations(speedup)

    def _queue_s(self, stage: int, allocation: Allocation) -> Array:
        # Many samples at once are fast for a queue of few gangs; too many need too much memory.
        speedup = self.workload.profile.speedup.at(allocation.slots_per_trial)
        together = max(1, VALUES_AT_ONCE // (BLOCK * self.workload.stages[stage].trials))
        durations = self._durations(stage, speedup)
        ends = []
        while batch := list(itertools.islice(durations, together)):
            ends.append(makespan(np.concatenate(batch), allocation.gangs))
        return np.concatenate(ends)

    def evaluate(self, plan: Plan) -> Outcome:
        """Time and cost of a plan on every sample."""
        if len(plan.stages) != len(self.workload.stages):
            raise InvariantError(f"{len(plan.stages)} planned stages for {len(self.workload.stages)}")
        seconds, launched = self._stage_times(plan)
        cluster = self.workload.cluster
        costs = self._bill_nodes(plan, seconds) if bills_nodes(cluster) else self._bill_slots(plan)
        for stage, nodes in enumerate(launched):
            costs[stage] += ingress_usd(cluster, nodes)
        return Outcome(
            jct_s=seconds.sum(axis=0),
            cost_usd=costs.sum(axis=0),
            stage_mean_s=tuple(seconds.mean(axis=1).tolist()),
            stage_mean_usd=tuple(costs.mean(axis=1).tolist()),
        )

    def _stage_times(self, plan: Plan) -> tuple[Array, list[int]]:
        """Critical path of each stage, (stages, samples), and the nodes launched for it."""
        held = len(self.workload.node_ages_s)
        seconds = np.empty((len(plan.stages), self.draws.samples))
        launched = []
        for i, stage in enumerate(plan.stages):
            new = max(0, stage.nodes_held - held)
            seconds[i] = self.makespan_s(i, stage.allocation) + self.draws.sync_s(i)
            if new:
                seconds[i] += self.draws.queue_s(i) + self.draws.slowest_init_s(i, new)
            launched.append(new)
            held = stage.nodes_held
        return seconds, launched

    def _bill_nodes(self, plan: Plan, seconds: Array) -> Array:
        """Each node from the start of its INIT to its release, oldest released first, with the minimum."""
        # What the minimum charge adds counts for the last stage that used the node.
        cluster, rate = self.workload.cluster, node_rate(self.workload.cluster)
        costs, clock = np.zeros_like(seconds), np.zeros(self.draws.samples)
        ages = sorted(self.workload.node_ages_s, reverse=True)
        cohorts = deque(_Cohort(1, np.full_like(clock, -age)) for age in ages)
        held = len(ages)

        def release(nodes: int, stage: int) -> None:
            while nodes > 0:
                oldest = cohorts[0]
                gone = min(oldest.nodes, nodes)
                costs[stage] += gone * rate * unused_each_s(cluster, clock - oldest.born_s)
                nodes -= gone
                oldest.nodes -= gone
                if not oldest.nodes:
                    cohorts.popleft()

        for i, stage in enumerate(plan.stages):
            release(held - stage.nodes_held, max(0, i - 1))
            new = max(0, stage.nodes_held - held)
            costs[i] += rate * stage.nodes_held * seconds[i]
            if new:
                queue = self.draws.queue_s(i)
                costs[i] -= rate * new * queue
                cohorts.append(_Cohort(new, clock + queue))
            clock = clock + seconds[i]
            held = stage.nodes_held
        release(held, len(plan.stages) - 1)
        return costs

    def _bill_slots(self, plan: Plan) -> Array:
        rate = slot_rate(self.workload.cluster)
        uses = (stage.allocation for stage in plan.stages)
        return rate * np.stack([self.busy_slot_s(i, use) for i, use in enumerate(uses)])
