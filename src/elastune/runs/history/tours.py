"""From visits to rounds: which epochs of which trials went on side by side (model hopping).

A journal has visits, not rounds. A *tour* is a trial's way through one iteration; a round has at most one
tour of each trial, and the next one begins when all of it are through. Where several pools hop at the same
time (brackets), their rounds are told apart by the nodes: no trial and no request is of two pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from elastune.place import NodeId, TrialId
from elastune.runs.history.book import History
from elastune.runs.history.gangs import GangLife


@dataclass(slots=True)
class Tour:
    """The visits of one trial in one iteration, repeated ones among them; or a gang that trains together."""

    trial: TrialId
    iteration: int
    gangs: list[GangLife] = field(default_factory=list)

    @property
    def from_s(self) -> float:
        return self.gangs[0].from_s

    @property
    def until_s(self) -> float:
        return max(gang.until_s for gang in self.gangs)

    @property
    def is_together(self) -> bool:
        return self.gangs[0].is_together


@dataclass(slots=True)
class Group:
    """Tours that went on side by side, and all nodes of their pool."""

    tours: list[Tour]
    nodes: frozenset[NodeId]

    @property
    def from_s(self) -> float:
        return self.tours[0].from_s

    @property
    def until_s(self) -> float:
        return max(tour.until_s for tour in self.tours)


def groups_of(history: History) -> list[Group]:
    """All rounds, the first that began first. A gang of all workers is a round of its own."""
    hopping = [gang for gang in history.gangs if gang.visit is not None or _trained_together(gang)]
    groups = [group for pool in _pools(history, hopping) for group in _rounds(*pool)]
    return sorted(groups, key=lambda group: group.from_s)


def _trained_together(gang: GangLife) -> bool:
    """A gang that was called off before it began is no round."""
    return gang.is_together and gang.until_s > gang.from_s


def _pools(history: History, gangs: Sequence[GangLife]) -> list[tuple[list[GangLife], frozenset[NodeId]]]:
    """Gangs that share trials, nodes or requests, directly or through others; and the nodes of each pool.

    Only barriers name their pool. Where all are of the first one there is no other, or it is young.
    """
    if not any(stage.pool for stage in history.stages):
        return [(list(gangs), frozenset(life.node for life in history.nodes))]
    parent: dict[object, object] = {}

    def root(key: object) -> object:
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for life in history.nodes:
        if life.request is not None:
            parent[root(life.node)] = root(("request", life.request))
    for gang in gangs:
        for slot in gang.gang:
            parent[root(slot.node)] = root(gang.trial)
    pools: dict[object, list[GangLife]] = {}
    nodes: dict[object, set[NodeId]] = {}
    for gang in gangs:
        pools.setdefault(root(gang.trial), []).append(gang)
    for life in history.nodes:
        nodes.setdefault(root(life.node), set()).add(life.node)
    return [(members, frozenset(nodes.get(key, ()))) for key, members in pools.items()]


def _rounds(gangs: Sequence[GangLife], nodes: frozenset[NodeId]) -> list[Group]:
    tours = _tours(gangs)
    groups: list[Group] = []
    for index, tour in enumerate(tours):
        if groups and not _is_new(groups[-1], tours[index:]):
            groups[-1].tours.append(tour)
        else:
            groups.append(Group([tour], nodes))
    return groups


def _tours(gangs: Sequence[GangLife]) -> list[Tour]:
    tours: dict[tuple[TrialId, int, int], Tour] = {}
    for gang in gangs:
        iteration = gang.first_iteration if gang.visit is None else gang.visit.iteration
        key = (gang.trial, iteration, gang.generation if gang.is_together else 0)
        tours.setdefault(key, Tour(gang.trial, iteration)).gangs.append(gang)
    return sorted(tours.values(), key=lambda tour: tour.from_s)


def _is_new(group: Group, ahead: Sequence[Tour]) -> bool:
    """Whether the first of the tours ahead begins another round.

    It does not while others of the round are on their way. Where all that began are through, it may be one
    that had to wait, if nothing speaks against it: on a single worker that is how rounds go.
    """
    first = ahead[0]
    trials = {tour.trial for tour in group.tours}
    if first.trial in trials or first.is_together or group.tours[0].is_together:
        return True
    until_s = group.until_s
    if first.from_s < until_s:
        return False
    iterations = {tour.iteration for tour in group.tours}
    beside = [tour for tour in ahead if tour.from_s < first.until_s]
    return any(tour.trial in trials or tour.iteration not in iterations for tour in beside)
