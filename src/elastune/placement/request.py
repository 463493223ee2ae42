"""The request to placement (nodes, present gangs, wishes), and its answer: a gang for every trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from elastune.errors import InvariantError
from elastune.model.ids import Gang, NodeId, Slot, TrialId


class ShrinkTo(Enum):
    """The sizes below its wish that a gang may get; above one node, always whole nodes."""

    POWER_OF_TWO = "power-of-two"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementNodes:
    """The nodes that are up, oldest first; all others are lost. Gangs must move off a leaving node."""

    nodes: tuple[NodeId, ...]
    slots_per_node: int
    leaving: frozenset[NodeId] = frozenset()

    def __post_init__(self) -> None:
        if self.slots_per_node < 1:
            raise InvariantError(f"a node has {self.slots_per_node} slots, expected at least 1")
        if len(set(self.nodes)) < len(self.nodes):
            raise InvariantError(f"a node is named twice: {', '.join(self.nodes)}")

    @property
    def staying(self) -> tuple[NodeId, ...]:
        return tuple(node for node in self.nodes if node not in self.leaving)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWish:
    """The slots that a trial should get, if possible."""

    trial: TrialId
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """One epoch of placement. Wishes are ordered, best first; trials without a wish stop.

    `locked` gangs were reassigned but have not acquired their slots yet (RubberBand 4.4.1): they stay as they
    are, whatever their wish, even on a leaving node. Only the loss of a node ends a lock.
    """

    cluster: PlacementNodes
    wishes: tuple[SlotWish, ...]
    present: Mapping[TrialId, Gang] = field(default_factory=dict)
    locked: frozenset[TrialId] = frozenset()
    min_slots: int = 1
    shrink_to: ShrinkTo = ShrinkTo.POWER_OF_TWO

    def __post_init__(self) -> None:
        if self.min_slots < 1:
            raise InvariantError(f"min_slots is {self.min_slots}, expected at least 1")
        trials = [wish.trial for wish in self.wishes]
        if len(set(trials)) < len(trials):
            raise InvariantError("a trial has two wishes, expected one")
        for wish in self.wishes:
            if wish.slots < 1:
                raise InvariantError(f"trial {wish.trial} wishes {wish.slots} slots, expected at least 1")
        if without_gang := sorted(self.locked - self.present.keys()):
            raise InvariantError(f"trials {without_gang} are locked, but have no gang")
        check_gangs(self.present, self.cluster.slots_per_node)

    @property
    def alive(self) -> dict[TrialId, Gang]:
        """The present gangs without those that lost a node."""
        up = set(self.cluster.nodes)
        return {trial: gang for trial, gang in self.present.items() if all(slot.node in up for slot in gang)}

    @property
    def alive_locked(self) -> dict[TrialId, Gang]:
        return {trial: gang for trial, gang in self.alive.items() if trial in self.locked}


def check_gangs(gangs: Mapping[TrialId, Gang], slots_per_node: int) -> None:
    """No slot twice, no gang scattered, a gang larger than a node alone on its nodes."""
    taken: dict[Slot, TrialId] = {}
    for trial, gang in gangs.items():
        nodes, size = dict.fromkeys(slot.node for slot in gang), len(gang)
        if not gang or len(nodes) != -(-size // slots_per_node):
            raise InvariantError(f"trial {trial} has {size} slots on {len(nodes)} nodes of {slots_per_node}")
        whole = (Slot(node, number) for node in nodes for number in range(slots_per_node))
        for slot in whole if size > slots_per_node else gang:
            where = f"slot {slot.number} of {slot.node}"
            if not 0 <= slot.number < slots_per_node:
                raise InvariantError(f"trial {trial} holds {where}, which has {slots_per_node}")
            if slot in taken:
                raise InvariantError(f"trials {taken[slot]} and {trial} share {where}")
            taken[slot] = trial


class Change(Enum):
    """What changes for the gang of a trial."""

    STAY = "stay"  # the same slots
    MOVE = "move"  # as many slots, elsewhere
    RESIZE = "resize"  # more or fewer slots, perhaps elsewhere
    START = "start"  # it had no gang, or a node of its gang is lost
    STOP = "stop"  # it has no gang any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A trial that gets fewer slots than wished, perhaps none."""

    trial: TrialId
    wished: int
    granted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The gangs of an epoch. `changes` has every trial with a gang before or after."""

    gangs: Mapping[TrialId, Gang]
    changes: Mapping[TrialId, Change]
    short: tuple[Shortfall, ...]

    def trials(self, change: Change) -> tuple[TrialId, ...]:
        return tuple(trial for trial, each in self.changes.items() if each is change)

    @property
    def used_nodes(self) -> frozenset[NodeId]:
        return frozenset(slot.node for gang in self.gangs.values() for slot in gang)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """A placement that leaves nodes empty, and the nodes to release, oldest first."""

    placement: Placement
    release: tuple[NodeId, ...]


def describe(request: PlacementRequest, gangs: Mapping[TrialId, Gang]) -> Placement:
    """The placement with these gangs: what changes, and which trials get less than wished."""
    alive, changes = request.alive, {}
    for trial in sorted(request.present.keys() | gangs.keys()):
        before, after = alive.get(trial), gangs.get(trial)
        if after is None or before is None:
            changes[trial] = Change.STOP if after is None else Change.START
        elif set(before) == set(after):
            changes[trial] = Change.STAY
        else:
            changes[trial] = Change.MOVE if len(before) == len(after) else Change.RESIZE
    granted = [(wish, len(gangs.get(wish.trial, ()))) for wish in request.wishes]
    short = tuple(Shortfall(trial=w.trial, wished=w.slots, granted=n) for w, n in granted if n < w.slots)
    return Placement(gangs={trial: gangs[trial] for trial in sorted(gangs)}, changes=changes, short=short)
