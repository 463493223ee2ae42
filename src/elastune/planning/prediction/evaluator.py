"""The execution model for all samples at once, which planners call thousands of times.

The same model as `graph.py` (RubberBand section 4.2 and Algorithm 1), without the graph. Stages are
separated by barriers, so the completion time is the sum of the stages' critical paths, and the time of a
stage for a given allocation does not depend on the rest of the plan: it is computed once and cached.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from elastune.errors import InvariantError
from elastune.model.billing import bills_nodes, ingress_usd, node_rate, slot_rate, unused_each_s
from elastune.model.continuing import Continuing
from elastune.model.distributions import Array
from elastune.model.limits import Outcome
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.hopping import epoch_rules, hop_through
from elastune.planning.prediction.plan import Allocation, Plan, Workload, kept_stages
from elastune.planning.prediction.random_numbers import AffordableRows

VALUES_AT_ONCE = 4_000_000
# Rows on which a queue is simulated, for a promise and for an estimate. With 128 of 1,024 rows of 2,048
# trials the 95 % quantile of a plan moves by 0.01 %; with another seed it moves by 0.17 %. With 8 of 32 rows
# of 100,000 trials it moves by 0.004 %.
_PROMISED = AffordableRows(values=262_144, least=8)
_ESTIMATED = AffordableRows(values=32_768, least=8, most=32)
# The turns beyond which an estimate simulates no queue. A promise does without beyond more of them, if the
# longest trial is so small a share of the stage: a queue ends at most that much later than an even load.
MANY_TURNS = 16
_VERY_MANY_TURNS = 1_000
_SMALL_SHARE = 0.005
# With fewer rows times gangs a heap in plain Python is faster than arrays.
_ONE_BY_ONE = 384


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
    if rows * gangs <= _ONE_BY_ONE:
        return np.array([_makespan_of_one(row, gangs) for row in durations.tolist()])
    # Rows are padded, so that every gang finds a trial; `next_trial` points into the flat table.
    padded = np.zeros((rows, trials + gangs))
    padded[:, :trials] = durations
    after_last = np.arange(rows) * padded.shape[1] + trials
    next_trial = after_last - (trials - gangs)
    free = np.sort(durations[:, :gangs], axis=1)
    ahead, active, ends = np.arange(gangs), np.arange(rows), np.empty(rows)
    while active.size:
        ending = padded.take(next_trial[:, None] + ahead)
        ending += free
        late = free[:, 1:] > np.minimum.accumulate(ending[:, :-1], axis=1)
        taken = np.where(late.any(axis=1), late.argmax(axis=1) + 1, gangs)
        np.minimum(taken, after_last - next_trial, out=taken)
        np.copyto(free, ending, where=ahead < taken[:, None])
        free.sort(axis=1)
        next_trial += taken
        going = next_trial < after_last
        if not going.all():
            ends[active] = free[:, -1]  # of rows that go on, written again later
            active, free = active[going], free[going]
            next_trial, after_last = next_trial[going], after_last[going]
    return ends


def _makespan_of_one(durations: list[float], gangs: int) -> float:
    free = durations[:gangs]
    heapq.heapify(free)
    for seconds in durations[gangs:]:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


@dataclass(slots=True)
class _Cohort:
    """Nodes launched together."""

    nodes: int
    born_s: Array


@dataclass(frozen=True, slots=True)
class _QueuedTrials:
    """The trials of a stage in some samples, and of each sample the longest and the sum."""

    durations: Array
    longest_s: Array
    total_s: Array

    @classmethod
    def of(cls, durations: Array) -> _QueuedTrials:
        return cls(durations, durations.max(axis=1), durations.sum(axis=1))


class Evaluator:
    """Predicts time and cost of plans for one workload on one fixed set of samples.

    `slowest` does the same if the slower trials survive; itself if that makes no difference.
    """

    def __init__(self, workload: Workload, draws: Draws, slowest: Evaluator | None = None) -> None:
        self.workload = workload
        self.draws = draws
        if slowest is None and (worst := draws.if_slowest_survive()) is not None:
            slowest = Evaluator(workload, worst)
        self.slowest = slowest or self
        self._makespans: dict[tuple[int, Allocation, bool], Array] = {}
        self._longest: dict[tuple[int, int, bool], Array] = {}
        self._busy: dict[tuple[int, int, bool], Array] = {}
        self._hops: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._work: dict[tuple[int, bool], tuple[Array, Array]] = {}
        self._queued: tuple[int, dict[tuple[int, int], list[_QueuedTrials]]] = (-1, {})
        self._remembered: tuple[Plan, Outcome] | None = None

    def head(self, samples: int) -> Evaluator:
        """The same on the first samples alone."""
        slowest = None if self.slowest is self else self.slowest.head(samples)
        return Evaluator(self.workload, self.draws.head(samples), slowest)

    def makespan_s(self, stage: int, allocation: Allocation, *, kept: bool = False) -> Array:
        """From the first gang's start to the last trial's save, per sample; `kept`: gangs need no start."""
        if self.workload.hopping is not None:
            return self._hopping(stage, allocation.gangs)[0]
        key = (stage, allocation, kept)
        if key not in self._makespans:
            if allocation.gangs == self.workload.stages[stage].trials:
                seconds = self.longest_trial_s(stage, allocation.slots_per_trial, kept=kept)
            else:
                seconds = self._queue_s(stage, allocation)
            self._makespans[key] = seconds
        return self._makespans[key]

    def longest_trial_s(self, stage: int, slots_per_trial: int, *, kept: bool = False) -> Array:
        """The longest trial of a stage with gangs of that size, per sample."""
        key = (stage, slots_per_trial, kept)
        if key not in self._longest:
            speedup = self.workload.profile.speedup.at(slots_per_trial)
            overhead = self.draws.constant_overhead_s(stage, kept=kept)
            if overhead is not None:
                self._longest[key] = self._work_of(stage, kept=kept)[0] / speedup + overhead
            else:
                longest = [d.max(axis=1) for d in self._durations(stage, speedup, kept=kept)]
                self._longest[key] = self.draws.per_sample(np.concatenate(longest))
        return self._longest[key]

    def busy_slot_s(self, stage: int, allocation: Allocation, *, kept: bool = False) -> Array:
        """Slot-seconds in which the gangs of a stage start, train and save, per sample."""
        if self.workload.hopping is not None:
            return self._hopping(stage, allocation.gangs)[1]
        slots_per_trial = allocation.slots_per_trial
        key = (stage, slots_per_trial, kept)
        if key not in self._busy:
            speedup = self.workload.profile.speedup.at(slots_per_trial)
            overhead = self.draws.constant_overhead_s(stage, kept=kept)
            if overhead is not None:
                trials = self.workload.stages[stage].trials
                seconds = self._work_of(stage, kept=kept)[1] / speedup + trials * overhead
            else:
                durations = self._durations(stage, speedup, kept=kept)
                seconds = self.draws.per_sample(np.concatenate([d.sum(axis=1) for d in durations]))
            self._busy[key] = slots_per_trial * seconds
        return self._busy[key]

    def least_s(self, stage: int, allocation: Allocation) -> Array:
        """No more than `makespan_s`: the longest trial or the mean load; without chance, the turns."""
        longest = self.longest_trial_s(stage, allocation.slots_per_trial)
        if self._has_equal_turns(stage):
            return -(-self.workload.stages[stage].trials // allocation.gangs) * longest
        return np.maximum(longest, self.busy_slot_s(stage, allocation) / allocation.slots)

    def _has_equal_turns(self, stage: int) -> bool:
        return self.workload.is_deterministic and not self.workload.stages[stage].remaining

    def _hopping(self, stage: int, workers: int) -> tuple[Array, Array]:
        """Seconds and busy slot-seconds of a stage whose models hop, per sample."""
        key = (stage, workers)
        if key not in self._hops:
            rules = epoch_rules(self.workload, stage, workers)
            seconds, busy = np.empty((2, self.draws.samples))
            for block, span in enumerate(self.draws.blocks(stage)):
                seconds[span], busy[span] = hop_through(self.draws, stage, block, rules)
            self._hops[key] = (seconds, busy)
        return self._hops[key]

    def _work_of(self, stage: int, *, kept: bool) -> tuple[Array, Array]:
        """Longest and total work at one slot, per sample: one pass serves gangs of every size."""
        key = (stage, kept and self.workload.continuing is Continuing.REPEATING)
        if key not in self._work:
            blocks = range(len(self.draws.blocks(stage)))
            work = [self.draws.train(stage, block).training_s(kept=kept) for block in blocks]
            longest = np.concatenate([block.max(axis=1) for block in work])
            total = np.concatenate([block.sum(axis=1) for block in work])
            self._work[key] = self.draws.per_sample(longest), self.draws.per_sample(total)
        return self._work[key]

    def _durations(self, stage: int, speedup: float, *, kept: bool = False) -> Iterator[Array]:
        for block in range(len(self.draws.blocks(stage))):
            yield self.draws.train(stage, block).durations(speedup, kept=kept)

    def _queue_s(self, stage: int, allocation: Allocation) -> Array:
        """Gangs that take turns."""
        if self._has_equal_turns(stage):
            return self.least_s(stage, allocation)
        rows = _PROMISED.of(self.workload.stages[stage].trials)
        if self._ends_evenly(stage, allocation):
            return np.asarray(self.least_s(stage, allocation) + self._last_turn_s(stage, allocation, rows))
        ends, least = self._simulate_queue(stage, allocation, rows)
        if ends.size >= self.draws.rows(stage):
            return self.draws.per_sample(ends)
        later_s = np.resize(ends - least, self.draws.rows(stage))
        return np.asarray(self.least_s(stage, allocation) + self.draws.per_sample(later_s))

    def _ends_evenly(self, stage: int, allocation: Allocation) -> bool:
        """Whether it matters little in which order the trials of a queue train."""
        turns = self.workload.stages[stage].trials / allocation.gangs
        if turns <= _VERY_MANY_TURNS or self.workload.is_deterministic:
            return False
        longest_s = self.longest_trial_s(stage, allocation.slots_per_trial).max()
        return bool(longest_s <= _SMALL_SHARE * self.least_s(stage, allocation).min())

    def _simulate_queue(self, stage: int, allocation: Allocation, rows: int) -> tuple[Array, Array]:
        """On the first rows of a stage: when the queue ends, and when it could end at the earliest."""
        gangs = allocation.gangs
        queued = self._queued_trials(stage, allocation.slots_per_trial, rows)
        ends = [makespan(trials.durations, gangs) for trials in queued]
        least = [np.maximum(trials.longest_s, trials.total_s / gangs) for trials in queued]
        return np.concatenate(ends), np.concatenate(least)

    def _queued_trials(self, stage: int, slots_per_trial: int, rows: int) -> list[_QueuedTrials]:
        """They are the same for any number of gangs; planners ask for all numbers of one stage in turn."""
        if self._queued[0] != stage:
            self._queued = (stage, {})
        known, key = self._queued[1], (slots_per_trial, rows)
        if key not in known:
            speedup = self.workload.profile.speedup.at(slots_per_trial)
            known[key] = [_QueuedTrials.of(each) for each in self._rows_at_once(stage, speedup, rows)]
        return known[key]

    def _rows_at_once(self, stage: int, speedup: float, rows: int) -> Iterator[Array]:
        """Durations in the first rows of a stage, many at once, which is fast for a queue of few gangs."""
        spans = [span for span in self.draws.blocks(stage) if span.start < rows]
        together = max(1, VALUES_AT_ONCE // (spans[0].stop * self.workload.stages[stage].trials))
        draws = (
            self.draws.train(stage, block, slice(rows - span.start)).durations(speedup)
            for block, span in enumerate(spans)
        )
        while batch := list(itertools.islice(draws, together)):
            yield np.concatenate(batch)

    def estimate_s(self, stage: int, allocation: Allocation, *, kept: bool = False) -> Array:
        """As `makespan_s`, but gangs that take turns are simulated on very few rows.

        If there are many turns it matters little; the variance of the trials tells how much later it ends.
        """
        trials, gangs = self.workload.stages[stage].trials, allocation.gangs
        if gangs == trials or self.workload.is_deterministic or self.workload.hopping is not None:
            return self.makespan_s(stage, allocation, kept=kept)
        few = _ESTIMATED.of(trials)
        if trials <= MANY_TURNS * gangs:
            ends, least = self._simulate_queue(stage, allocation, few)
            later_s = float((ends - least).mean())
        else:
            later_s = self._last_turn_s(stage, allocation, few)
        return np.asarray(self.least_s(stage, allocation) + later_s)

    def _last_turn_s(self, stage: int, allocation: Allocation, rows: int) -> float:
        """How much later a queue of many turns ends than an even load, on average."""
        speedup = self.workload.profile.speedup.at(allocation.slots_per_trial)
        durations = self.draws.train(stage, 0, slice(rows)).durations(speedup)
        return (1 - 1 / allocation.gangs) * float((durations**2).mean() / durations.mean()) / 2

    def evaluate(self, plan: Plan) -> Outcome:
        """Time and cost of a plan on every sample."""
        outcome = self.evaluate_on_average(plan)
        if self.slowest is self:
            return outcome
        return replace(outcome, worst=self.slowest.evaluate_on_average(plan))

    def evaluate_once(self, plan: Plan) -> Outcome:
        """As `evaluate`, remembered until another plan is asked for: the best so far meets many rivals."""
        if self._remembered is None or self._remembered[0] != plan:
            self._remembered = (plan, self.evaluate(plan))
        return self._remembered[1]

    def evaluate_on_average(self, plan: Plan) -> Outcome:
        """The same without the worst case of who survives."""
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
        for i, (kept, stage) in enumerate(zip(kept_stages(self.workload, plan), plan.stages, strict=True)):
            new = max(0, stage.nodes_held - held)
            seconds[i] = self.makespan_s(i, stage.allocation, kept=kept) + self.draws.sync_s(i)
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
        stages = enumerate(zip(kept_stages(self.workload, plan), plan.stages, strict=True))
        busy = [self.busy_slot_s(i, stage.allocation, kept=kept) for i, (kept, stage) in stages]
        return rate * np.stack(busy)
