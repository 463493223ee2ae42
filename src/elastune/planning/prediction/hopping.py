"""What a hopping stage takes: the open-shop bound of its epochs, or one trial after the other on all workers.

The rule is that of `elastune.hopping.partitions`, which a run follows too, for trials that differ. Hopping,
an epoch takes its longest trial or its busiest worker, whichever is more: a good schedule comes within a
percent of that, and nobody begins an epoch before all have ended the one before. Together, each of the trials
that are left trains to its end as a gang of all workers; only the training itself gets faster with workers,
start-up and save do not. Fewer trials never hop again once more of them train together.

A hop within a node is free, one to another node takes as long as a checkpoint takes to storage. In every
epoch a trial has to come to all nodes, or with replicas to enough of them to see all data; a good schedule
makes few hops more while all workers are busy.

Trials that train together though no speed-up was ever measured are reckoned to take, in all, what hopping
takes: no gain, since none was seen, and no loss, since a run changes back when it sees one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastune.errors import InvariantError
from elastune.hopping.partitions import TrainingMode, busiest_part, choose_manner, measured_speedup
from elastune.model.distributions import Array
from elastune.planning.prediction.draws import Draws, RoundDraws, epoch_spans
from elastune.planning.prediction.plan import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRule:
    """How the trials of some epochs share the workers."""

    epochs: range
    trials: int
    """At the first of the epochs; those that hop are the same to the last."""
    workers: int
    manner: TrainingMode
    busiest_part: float
    """Of all the work of an epoch, what the busiest worker does when trials hop."""
    hops_s: float
    """Of one trial in one epoch, when trials hop: its ways from node to node."""
    speedup: float
    """Of a trial that has all the workers."""

    def hopping_s(self, rounds: RoundDraws) -> Array:
        """What all the epochs take, per sample."""
        ways_s = len(self.epochs) * self.hops_s
        if self.trials * self.busiest_part <= 1:  # so few that no worker can be busier than the longest trial
            return np.asarray(rounds.longest_sum_s + ways_s)
        load = (rounds.total_s + self.trials * self.hops_s) * self.busiest_part
        return np.asarray(np.maximum(rounds.longest_s + self.hops_s, load).sum(axis=1))


def epoch_rules(workload: Workload, stage: int, workers: int) -> tuple[EpochRule, ...]:
    """The rules of a stage in their order; those that hop for as many epochs as no trial leaves."""
    rules: list[EpochRule] = []
    for epochs, trials in epoch_spans(workload.stages[stage]):
        rules.append(_rule(workload, (stage, epochs), trials, workers))
        if rules[-1].manner is TrainingMode.TOGETHER:
            break
    return tuple(rules)


def manners_of(workload: Workload, stage: int, workers: int) -> tuple[TrainingMode, ...]:
    """How the trials of a stage train, each manner once, the first one first."""
    return tuple(dict.fromkeys(rule.manner for rule in epoch_rules(workload, stage, workers)))


def hop_through(draws: Draws, stage: int, block: int, rules: tuple[EpochRule, ...]) -> tuple[Array, Array]:
    """Seconds and busy slot-seconds of a stage, per sample of a block.

    Hopping, a worker is idle while no model is there; together, all are busy all the time.
    """
    spans = draws.rounds(stage, block)
    samples = draws.blocks[block].stop - draws.blocks[block].start
    seconds, busy = np.zeros((2, samples))
    for index, rule in enumerate(rules):
        if rule.manner is TrainingMode.HOPPING:
            seconds += rule.hopping_s(spans[index])
            busy += spans[index].total_sum_s + len(rule.epochs) * rule.trials * rule.hops_s
        else:
            work = np.sum([rounds.work_sum_s for rounds in spans[index:]], axis=0)
            overhead = draws.gang_overhead_s(stage, rule.epochs.start, block).sum(axis=1)
            together = work / rule.speedup + overhead
            seconds += together
            busy += rule.workers * together
    return seconds, busy


def _rule(workload: Workload, of: tuple[int, range], trials: int, workers: int) -> EpochRule:
    hopping = workload.hopping
    if hopping is None:
        raise InvariantError("a stage of gangs has no epochs in which models hop")
    stage, epochs = of
    partitions, replicas = hopping.partitions, hopping.replicas
    measured = measured_speedup(workload.profile.speedup, workers)
    manner = choose_manner(
        trials, workers, partitions, measured, replicas=replicas, most_slots=workload.most_slots
    )
    if manner is TrainingMode.TOGETHER:
        epochs = range(epochs.start, workload.stages[stage].iterations)
    left = [work - epochs.start for work in workload.stages[stage].work if work > epochs.start]
    # So few hop as fast as the longest of them; at this speed-up they are as fast one after the other.
    break_even = sum(left) / max(left)
    return EpochRule(
        epochs=epochs,
        trials=trials,
        workers=workers,
        manner=manner,
        busiest_part=busiest_part(trials, workers, partitions, replicas),
        hops_s=_hops(workload, workers, replicas) * workload.profile.transfer_s,
        speedup=break_even if measured is None else measured,
    )


def _hops(workload: Workload, workers: int, replicas: int) -> int:
    """How often a trial has to leave a node in an epoch, wherever it begins."""
    nodes = -(-workers // workload.cluster.slots_per_node)
    return -(-nodes // replicas) - 1
