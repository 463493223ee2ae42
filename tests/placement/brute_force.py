"""The oracle: every way to seat gangs on nodes, for clusters small enough to try them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from elastune.model.ids import TrialId
from elastune.placement.request import Change, Placement, PlacementRequest


def fewest_moves(
    request: PlacementRequest, targets: Mapping[TrialId, int], *, closing: int = 0
) -> int | None:
    """How many gangs that could stay must move to seat all targets; None if they cannot be seated."""
    size, staying = request.cluster.slots_per_node, request.cluster.staying
    homes = unmoved_homes(request, targets)
    trials = sorted(targets, key=lambda trial: -targets[trial])
    best: int | None = None

    def extend(i: int, free: tuple[int, ...], moved: int) -> None:
        nonlocal best
        if (best is not None and moved >= best) or free.count(size) < closing:
            return
        if i == len(trials):
            best = moved
            return
        home = homes.get(trials[i])
        for nodes, left in _seats(targets[trials[i]], free, size):
            away = home is not None and {staying[node] for node in nodes} != home
            extend(i + 1, left, moved + away)

    extend(0, open_slots(request), 0)
    return best


def best_targets(
    request: PlacementRequest, sizes: Mapping[TrialId, Sequence[int]], *, closing: int = 0
) -> dict[TrialId, int]:
    """By rank, the first of its sizes with which a gang can be seated together with all better ones."""
    targets: dict[TrialId, int] = {}
    for wish in request.wishes:
        if wish.trial not in locked(request):
            for slots in sizes[wish.trial]:
                if fewest_moves(request, targets | {wish.trial: slots}, closing=closing) is not None:
                    targets[wish.trial] = slots
                    break
    return targets


def moves(request: PlacementRequest, placement: Placement) -> int:
    """The moves of a placement that the present nodes would not have forced."""
    targets = {trial: len(gang) for trial, gang in placement.gangs.items() if trial not in locked(request)}
    return sum(placement.changes[trial] is Change.MOVE for trial in unmoved_homes(request, targets))


def unmoved_homes(request: PlacementRequest, targets: Mapping[TrialId, int]) -> dict[TrialId, set[str]]:
    """The nodes of the gangs that have the right size and lie on staying nodes."""
    homes = {}
    for trial, slots in targets.items():
        gang = request.present.get(trial, ())
        if len(gang) == slots and all(slot.node in request.cluster.staying for slot in gang):
            homes[trial] = {str(slot.node) for slot in gang}
    return homes


def locked(request: PlacementRequest) -> frozenset[TrialId]:
    """The locks that hold: a lost node ends a lock."""
    up = set(request.cluster.nodes)
    return frozenset(t for t in request.locked if up.issuperset(slot.node for slot in request.present[t]))


def open_slots(request: PlacementRequest) -> tuple[int, ...]:
    """What locked gangs leave of every staying node."""
    size = request.cluster.slots_per_node
    free = dict.fromkeys(request.cluster.staying, size)
    for trial in locked(request):
        gang = request.present[trial]
        for node in {slot.node for slot in gang} & free.keys():
            free[node] -= size if len(gang) > size else len(gang)
    return tuple(free.values())


def _seats(slots: int, free: tuple[int, ...], size: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    count, need = (1, slots) if slots <= size else (-(-slots // size), size)
    roomy = [node for node, left in enumerate(free) if left >= need]
    for nodes in combinations(roomy, count):
        yield nodes, tuple(left - need if node in nodes else left for node, left in enumerate(free))
