"""Model hopping: how far each trial is through the partitions, the present round, and how fast visits are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from elastune.core.observed_speed import SpeedTally
from elastune.hopping.epoch import PartitionId, TrialDropped, UnitFailed, WorkerId
from elastune.hopping.epoch_state import EpochState, Scheduler
from elastune.hopping.layout import Layout
from elastune.model.ids import NodeId, Slot, TrialId

# Visits after which the speed of a node counts.
_MIN_VISITS = 3


@dataclass(slots=True)
class HopProgress:
    """A trial's progress in one iteration. `seen` are the partitions visited, in this order.

    The model after the first `safe` of them is durable. The newest one is on the node `at`; None: only in the
    store.
    """

    iteration: int
    seen: list[PartitionId] = field(default_factory=list)
    safe: int = 0
    at: NodeId | None = None
    saving: int | None = None
    """The generation whose model is being saved, for which its node is needed; None: none is."""

    def fall_back(self) -> int:
        """The newest model is lost: visits after the durable one are repeated; returns how many."""
        lost = len(self.seen) - self.safe
        self.saving = None  # its answer no longer counts
        del self.seen[self.safe :]
        return lost


@dataclass(slots=True)
class HopRound:
    """One epoch, or its evaluation, of the trials that take part in it. `open`: those not through yet.

    `evaluates` is None where epochs overlap: then a round lasts as long as trials begin their next epochs.
    """

    epoch: EpochState
    scheduler: Scheduler
    open: dict[TrialId, None]
    evaluates: bool | None
    coming: dict[WorkerId, TrialId] = field(default_factory=dict)
    """The trial whose model each worker loads while another trains."""

    def next_on(self, worker: WorkerId) -> TrialId | None:
        """Of the idle trials that still have to visit this worker, the one with most visits left."""
        epoch = self.epoch
        held = next(each.partitions for each in epoch.workers if each.id == worker)
        columns = [column for column, partition in enumerate(epoch.partitions) if partition in held]
        taken = self.coming.values()
        left = [
            (int(epoch.todo[row].sum()), -row)
            for row, trial in enumerate(epoch.trials)
            if epoch.trial_free[row] and trial not in taken and epoch.todo[row, columns].any()
        ]
        self.coming.pop(worker, None)
        if not left:
            return None
        self.coming[worker] = epoch.trials[-max(left)[1]]
        return self.coming[worker]

    def drop(self, trial: TrialId, at_s: float) -> None:
        """The trial takes no further part."""
        if self.open.pop(trial, 0) is None:
            self.epoch.handle(TrialDropped(at_s=at_s, trial=trial))

    def put_back(self, trial: TrialId, slot: Slot, at_s: float) -> None:
        """The visit of the trial failed."""
        running = self.epoch.running.get(worker_id(slot))
        if running is not None and running.unit.trial == trial:
            self.epoch.handle(UnitFailed(at_s=at_s, worker=worker_id(slot)))


@dataclass(slots=True)
class HopState:
    """What a pool has for hopping beside its nodes: the data layout and the present round."""

    layout: Layout = field(default_factory=dict)
    round: HopRound | None = None
    roster: tuple[Slot, ...] = ()
    """The workers of the layout."""
    rounds: int = 0
    stale: bool = False
    """A worker came or went, or a model was lost: the rest of the round must be planned again."""


@dataclass(slots=True)
class VisitPaces:
    """Seconds of a visit per mean partition, by trial, and how slow each node is compared with the others."""

    trials: dict[TrialId, SpeedTally] = field(default_factory=dict)
    nodes: dict[NodeId, SpeedTally] = field(default_factory=dict)
    all: SpeedTally = field(default_factory=SpeedTally)
    beside: SpeedTally = field(default_factory=SpeedTally)
    """What visits take beside training: to arrive and to start, without hops, saves and reading data."""

    def beside_s(self, otherwise: float) -> float:
        return self.beside.seconds / self.beside.count if self.beside.count else otherwise

    def add(self, trial: TrialId, node: NodeId, seconds: float, size: float) -> None:
        usual = self.trial_s(trial, seconds / size) * size
        if usual > 0.0:
            self.nodes.setdefault(node, SpeedTally()).add(seconds / usual)
        self.trials.setdefault(trial, SpeedTally()).add(seconds / self.node_factor(node), size)
        self.all.add(seconds, size)

    def trial_s(self, trial: TrialId, otherwise: float) -> float:
        own = self.trials.get(trial)
        if own is not None and own.count and own.seconds > 0.0:
            return own.seconds / own.count
        return self.all.seconds / self.all.count if self.all.count and self.all.seconds > 0.0 else otherwise

    def node_factor(self, node: NodeId) -> float:
        """1.0 before a few visits."""
        seen = self.nodes.get(node)
        return seen.seconds / seen.count if seen is not None and seen.count >= _MIN_VISITS else 1.0


@dataclass(slots=True)
class GangSpeeds:
    """How fast gangs of all workers have trained in this run, by their size."""

    alone_s: dict[int, float] = field(default_factory=dict)
    """What their epochs would have taken on one worker."""
    together_s: dict[int, float] = field(default_factory=dict)

    def add(self, size: int, alone_s: float, together_s: float) -> None:
        self.alone_s[size] = self.alone_s.get(size, 0.0) + alone_s
        self.together_s[size] = self.together_s.get(size, 0.0) + together_s

    def speedup(self, size: int) -> float | None:
        """None: not measured yet."""
        together_s = self.together_s.get(size, 0.0)
        return self.alone_s[size] / together_s if together_s > 0.0 else None


def worker_id(slot: Slot) -> WorkerId:
    return WorkerId(f"{slot.node}:{slot.number}")


def forget_node(hop_progress: dict[TrialId, HopProgress], held: Collection[TrialId], node: NodeId) -> None:
    """The models on this node are lost; idle trials repeat the visits after their last durable model.

    A trial in `held` may have loaded its model elsewhere: `HopProgress.at` records that there is no other
    copy, in case its visit fails.
    """
    for trial, progress in hop_progress.items():
        if progress.at == node:
            progress.at = None
            if trial not in held:
                progress.fall_back()
