"""How far each trial is on its way through the partitions, and how fast visits are (model hopping)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from elastune.core.observed_speed import SpeedTally
from elastune.hopping.epoch import PartitionId, TrialDropped, UnitFailed, WorkerId
from elastune.hopping.epoch_state import EpochState, Scheduler
from elastune.hopping.layout import Layout
from elastune.model.ids import NodeId, Slot, TrialId


@dataclass(slots=True)
class HopProgress:
    """A trial's way through one iteration. `seen` are the partitions behind it, in the order of the visits.

    The state after the first `safe` of them is durable. The newest one lies on the node `at`; None: nowhere
    but in the store.
    """

    iteration: int
    seen: list[PartitionId] = field(default_factory=list)
    safe: int = 0
    at: NodeId | None = None
    stowing: int | None = None
    """The generation whose state is being made durable; its node is needed for that. None: none is."""

    def fall_back(self) -> int:
        """The newest state is lost: what came after the durable one is to be done again."""
        lost = len(self.seen) - self.safe
        self.stowing = None  # what comes of it is of a way that does not count any more
        del self.seen[self.safe :]
        return lost


@dataclass(slots=True)
class HopRound:
    """One epoch, or its evaluation, of the trials that take part in it. `open`: those not through yet."""

    floor: EpochState
    scheduler: Scheduler
    open: dict[TrialId, None]
    evaluates: bool
    coming: dict[WorkerId, TrialId] = field(default_factory=dict)
    """Whose model is brought there while another trains."""

    def next_on(self, worker: WorkerId) -> TrialId | None:
        """Of the trials at rest, the one with most left that has to come there."""
        floor = self.floor
        held = next(each.partitions for each in floor.workers if each.id == worker)
        columns = [column for column, partition in enumerate(floor.partitions) if partition in held]
        taken = self.coming.values()
        left = [
            (int(floor.todo[row].sum()), -row)
            for row, trial in enumerate(floor.trials)
            if floor.trial_free[row] and trial not in taken and floor.todo[row, columns].any()
        ]
        self.coming.pop(worker, None)
        if not left:
            return None
        self.coming[worker] = floor.trials[-max(left)[1]]
        return self.coming[worker]

    def drop(self, trial: TrialId, at_s: float) -> None:
        """It takes no further part."""
        if self.open.pop(trial, 0) is None:
            self.floor.handle(TrialDropped(at_s=at_s, trial=trial))

    def put_back(self, trial: TrialId, slot: Slot, at_s: float) -> None:
        """Its visit came to nothing."""
        running = self.floor.running.get(worker_id(slot))
        if running is not None and running.unit.trial == trial:
            self.floor.handle(UnitFailed(at_s=at_s, worker=worker_id(slot)))


@dataclass(slots=True)
class HopState:
    """What a pool has for hopping beside its nodes: where the data lie, and the round that goes on."""

    layout: Layout = field(default_factory=dict)
    round: HopRound | None = None
    roster: tuple[Slot, ...] = ()
    """The workers for which the layout was made."""
    rounds: int = 0
    stale: bool = False
    """A worker came or went, or a model was lost: the rest of the round is to be planned anew."""


@dataclass(slots=True)
class VisitPaces:
    """Seconds of a visit per mean partition: by trial, and how much slower some nodes are than others."""

    trials: dict[TrialId, SpeedTally] = field(default_factory=dict)
    nodes: dict[NodeId, SpeedTally] = field(default_factory=dict)
    all: SpeedTally = field(default_factory=SpeedTally)

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
        """Once a few visits tell something."""
        seen = self.nodes.get(node)
        return seen.seconds / seen.count if seen is not None and seen.count >= _TELLING else 1.0


_TELLING = 3


def worker_id(slot: Slot) -> WorkerId:
    return WorkerId(f"{slot.node}:{slot.number}")


def forget_node(tours: dict[TrialId, HopProgress], suspended: Iterable[TrialId], node: NodeId) -> int:
    """The models that lay there are gone; returns how many visits of trials at rest that costs.

    A trial on its way elsewhere may have its model already: `HopProgress.at` says that there is no
    other copy, in case its visit fails.
    """
    idle = set(suspended)
    lost = 0
    for trial, tour in tours.items():
        if tour.at == node:
            tour.at = None
            lost += tour.fall_back() if trial in idle else 0
    return lost
