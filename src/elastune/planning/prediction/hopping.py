"""The time of a hopping stage: the open-shop bound of its epochs, or one trial after another on all workers.

The rule is that of `elastune.hopping.partitions`, which a run follows too, for trials that differ. Hopping,
an epoch takes its longest trial or its busiest worker, whichever is more, times what simulated rounds of
equal trials take beyond that; and no trial begins an epoch before all have ended the one before, unless
epochs overlap: then that holds for all epochs of a stage as a whole. Together,
each trial left trains to its end as a gang of all workers; only the training gets faster with workers,
start-up and save do not.
Fewer trials never hop again once more of them train together. Without a measured speed-up trials hop: a run
may measure it in an epoch of the last trial, and is then no slower.

A hop within a node is free, one to another node takes as long as a checkpoint takes to storage. In every
epoch a trial has to visit all nodes, or with replicas enough of them to see all data; a good schedule needs
few more hops while all workers are busy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from elastune.errors import InvariantError
from elastune.hopping.partitions import (
    Hopping,
    TrainingMode,
    busiest_part,
    choose_manner,
    gang_size,
    measured_speedup,
)
from elastune.hopping.round_time import HopWorkers, RoundTimes, VisitCosts, overlapping_s, round_times
from elastune.model.distributions import Array
from elastune.planning.prediction.draws import Draws, RoundDraws, epoch_spans
from elastune.planning.prediction.plan import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRule:
    """How the trials of some epochs share the workers."""

    epochs: range
    trials: int  # at the first of the epochs; if they hop, the same to the last
    workers: int
    stretch: float  # how much longer an epoch is, if trials hop, than its longest trial and busiest worker
    gang: int  # the workers that one trial has if trials train together
    manner: TrainingMode
    busiest_part: float  # the share of an epoch's work that the busiest worker does if trials hop
    hops_s: float  # of one trial in one epoch, if trials hop: moves from node to node
    speedup: float  # of such a gang
    overlaps: bool = False  # no trial waits for the others between its epochs

    def hopping_s(self, rounds: RoundDraws) -> Array:
        """The time of all epochs, per sample."""
        if self.overlaps:
            longest, total = rounds.longest_sum_s, rounds.total_sum_s
            hops_s = len(self.epochs) * self.hops_s
            load = (total + self.trials * hops_s) * self.busiest_part
            return np.asarray(self.stretch * np.maximum(longest + hops_s, load))
        if self.trials * self.busiest_part <= 1:  # so few that no worker can be busier than the longest trial
            return np.asarray(self.stretch * (rounds.longest_sum_s + len(self.epochs) * self.hops_s))
        load = (rounds.total_s + self.trials * self.hops_s) * self.busiest_part
        return np.asarray(self.stretch * np.maximum(rounds.longest_s + self.hops_s, load).sum(axis=1))


def epoch_rules(workload: Workload, stage: int, workers: int) -> tuple[EpochRule, ...]:
    """The rules of a stage in order; a rule of hopping covers the epochs in which no trial leaves."""
    rules: list[EpochRule] = []
    for epochs, trials in epoch_spans(workload.stages[stage]):
        rules.append(_rule(workload, (stage, epochs), trials, workers))
        if rules[-1].manner is TrainingMode.TOGETHER:
            break
    return tuple(rules)


def manners_of(workload: Workload, stage: int, workers: int) -> tuple[TrainingMode, ...]:
    """The training modes of a stage, each once, in order."""
    return tuple(dict.fromkeys(rule.manner for rule in epoch_rules(workload, stage, workers)))


def hop_through(draws: Draws, stage: int, block: int, rules: tuple[EpochRule, ...]) -> tuple[Array, Array]:
    """Seconds and busy slot-seconds of a stage, per sample of a block."""
    # Hopping, a worker without a model is idle; together, all are busy all the time.
    spans = draws.rounds(stage, block)
    span = draws.blocks(stage)[block]
    seconds, busy = np.zeros((2, span.stop - span.start))
    for index, rule in enumerate(rules):
        if rule.manner is TrainingMode.HOPPING:
            seconds += rule.hopping_s(spans[index])
            busy += spans[index].total_sum_s + len(rule.epochs) * rule.trials * rule.hops_s
        else:
            work = np.sum([rounds.work_sum_s for rounds in spans[index:]], axis=0)
            overhead = draws.gang_overhead_s(stage, rule.epochs.start, block).sum(axis=1)
            together = work / rule.speedup + overhead
            seconds += together
            busy += rule.gang * together
    return seconds, busy


def _rule(workload: Workload, of: tuple[int, range], trials: int, workers: int) -> EpochRule:
    hopping = workload.hopping
    if hopping is None:
        raise InvariantError("a stage of gangs has no epochs in which models hop")
    stage, epochs = of
    partitions, replicas, most = hopping.partitions, hopping.replicas, workload.most_slots
    gang = gang_size(workers, partitions)
    measured = measured_speedup(workload.profile.speedup, gang)
    manner = choose_manner(trials, workers, partitions, measured, replicas=replicas, most_slots=most)
    if manner is TrainingMode.TOGETHER:
        epochs = range(epochs.start, workload.stages[stage].iterations)
    rule = EpochRule(
        epochs=epochs,
        trials=trials,
        workers=workers,
        stretch=1.0,
        gang=gang,
        manner=manner,
        busiest_part=busiest_part(trials, workers, partitions, replicas),
        hops_s=_hops(workload, workers, replicas) * workload.profile.transfer_s,
        speedup=measured or 1.0,
        overlaps=hopping.overlap,
    )
    if manner is TrainingMode.TOGETHER:
        return rule
    return replace(rule, stretch=_stretch(workload, hopping, stage, rule))


def _stretch(workload: Workload, hopping: Hopping, stage: int, rule: EpochRule) -> float:
    """By simulated rounds of mean trials, against what the rule says of them."""
    profile, data = workload.profile, hopping.terms
    costs = VisitCosts(
        epoch_s=profile.iteration.mean,
        startup_s=profile.startup.mean,
        save_s=profile.save.mean,
        transfer_s=profile.transfer_s,
    )
    workers = HopWorkers(rule.workers, workload.cluster.slots_per_node)
    loads = stage > 0 or workload.resumes or rule.epochs.start > 0
    if rule.overlaps:
        whole_s = overlapping_s(rule.trials, len(rule.epochs), workers, data, costs, loads=loads)
    else:
        times = round_times(rule.trials, workers, data, costs, loads=loads)
        whole_s = None if times is None else times.total_s(len(rule.epochs))
    trial_s = costs.epoch_s + costs.save_s + costs.transfer_s + hopping.visits * costs.startup_s
    reads_s = workload.reads_s(stage) if rule.epochs.start == 0 else 0.0
    first_s, later_s = (
        max(each, rule.trials * each * rule.busiest_part)
        for each in (trial_s + reads_s + rule.hops_s, trial_s + rule.hops_s)
    )
    usual_s = RoundTimes(first_s, later_s).total_s(len(rule.epochs))
    return 1.0 if whole_s is None or usual_s <= 0.0 else whole_s / usual_s


def _hops(workload: Workload, workers: int, replicas: int) -> int:
    """How often a trial has to leave a node in an epoch, from any start."""
    nodes = -(-workers // workload.cluster.slots_per_node)
    return -(-nodes // replicas) - 1
