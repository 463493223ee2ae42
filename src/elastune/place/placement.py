"""What placement answers: a gang for every trial, and what that changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from elastune.place.request import Gang, NodeId, Request, TrialId


class Change(Enum):
    """What becomes of the gang of a trial."""

    STAY = "stay"  # the same slots
    MOVE = "move"  # as many slots, elsewhere
    RESIZE = "resize"  # more or fewer slots, perhaps elsewhere
    START = "start"  # it had no gang, or a node of its gang is lost
    STOP = "stop"  # it has no gang any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A trial that gets less than it wished, perhaps nothing."""

    trial: TrialId
    wished: int
    granted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The gangs of an epoch. `changes` names every trial that has a gang before or after."""

    gangs: Mapping[TrialId, Gang]
    changes: Mapping[TrialId, Change]
    short: tuple[Shortfall, ...]

    def trials(self, change: Change) -> tuple[TrialId, ...]:
        return tuple(trial for trial, seen in self.changes.items() if seen is change)

    @property
    def used_nodes(self) -> frozenset[NodeId]:
        return frozenset(slot.node for gang in self.gangs.values() for slot in gang)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """A placement that leaves nodes empty, and which to release, oldest first."""

    placement: Placement
    release: tuple[NodeId, ...]


def describe(request: Request, gangs: Mapping[TrialId, Gang]) -> Placement:
    """The placement with these gangs: what changes, and who gets less than wished."""
    alive, changes = request.alive, {}
    for trial in sorted(request.present.keys() | gangs.keys()):
        before, after = alive.get(trial), gangs.get(trial)
        if after is None:
            changes[trial] = Change.STOP
        elif before is None:
            changes[trial] = Change.START
        elif len(before) != len(after):
            changes[trial] = Change.RESIZE
        else:
            changes[trial] = Change.STAY if set(before) == set(after) else Change.MOVE
    granted = [(wish, len(gangs.get(wish.trial, ()))) for wish in request.wishes]
    short = tuple(
        Shortfall(trial=wish.trial, wished=wish.slots, granted=slots)
        for wish, slots in granted
        if slots < wish.slots
    )
    return Placement(gangs={trial: gangs[trial] for trial in sorted(gangs)}, changes=changes, short=short)
