"""The placement controller (RubberBand section 4.4): which slots of which nodes every trial gets.

In this order: all wishes are placed or shrunk; the nodes to be released are empty; as few gangs as possible
move. A gang that has its size stays unless it must give way (`eviction`); the others go largest first into
the best hole (`board`). If that fails, gangs displace smaller ones as in Algorithm 3 (`displacement`), or
else the seats that come with the grant are taken.

When not all wishes can be packed, colocation comes before size (`grant`). The best-ranked trials get their
wishes as far down the ranking as these can be packed together. Every further trial, best first, gets the
largest allowed size that still fits, down to `min_slots`, else nothing. So no gang shrinks in favour of a
lower-ranked one, and none could be larger without taking from a better one. A policy that prefers to run all
trials asks for smaller gangs. The grant depends on nodes, wishes and locks, not on where the other gangs are:
asking again gives the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from elastune.errors import InvariantError
from elastune.model.ids import Gang, NodeId, Slot, TrialId
from elastune.placement.best_fit import Fitter, GangTask, PlacementBoard, Seats, Units, fill, seat, units_of
from elastune.placement.displacement import displace
from elastune.placement.eviction import evict
from elastune.placement.request import Packing, Placement, PlacementRequest, ShrinkTo, describe


def survey(request: PlacementRequest, *, closing: int) -> GangTask:
    """The request as a task, without locked gangs and gangs with a lost node."""
    size, staying = request.cluster.slots_per_node, request.cluster.staying
    number, free = {node: i for i, node in enumerate(staying)}, [size] * len(staying)
    locked = request.alive_locked
    for gang in locked.values():
        for slot in gang:
            if slot.node in number:
                free[number[slot.node]] -= size if len(gang) > size else 1
    alive, before, held = request.alive, {}, {}
    for wish in request.wishes:
        if wish.trial not in locked and wish.trial in alive:
            gang = alive[wish.trial]
            nodes = {slot.node for slot in gang}
            before[wish.trial] = tuple(sorted(number[node] for node in nodes if node in number))
            if nodes <= number.keys():
                held[wish.trial] = len(gang)
    return GangTask(
        slots_per_node=size,
        open_slots=tuple(max(0, slots) for slots in free),
        targets={wish.trial: wish.slots for wish in request.wishes if wish.trial not in locked},
        before=before,
        held=held,
        closing=min(closing, free.count(size)),
    )


def gangs_of(request: PlacementRequest, task: GangTask, seats: Seats) -> dict[TrialId, Gang]:
    """The slots of every gang. One that stays keeps its slots; one resized in place keeps what it can."""
    size, staying = request.cluster.slots_per_node, request.cluster.staying
    stay = (trial for trial, nodes in task.kept.items() if set(seats[trial]) == set(nodes))
    gangs = request.alive_locked | {trial: request.present[trial] for trial in stay}
    free = {node: set(range(size)) for node in staying}
    for gang in gangs.values():
        for slot in gang:
            if slot.node in free:
                free[slot.node].remove(slot.number)
    for trial, slots in task.targets.items():
        if trial not in gangs:
            own = set(request.present.get(trial, ()))
            taken: list[Slot] = []
            for node in sorted(seats[trial]):
                taken += _take(free[staying[node]], staying[node], min(size, slots - len(taken)), own)
            gangs[trial] = tuple(taken)
    return gangs


def _take(free: set[int], node: NodeId, count: int, own: set[Slot]) -> list[Slot]:
    """Take free slots of a node, those that the gang had first."""
    taken = sorted(free, key=lambda number: (Slot(node, number) not in own, number))[:count]
    free.difference_update(taken)
    return [Slot(node, number) for number in sorted(taken)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinking:
    """The sizes below its wish that a gang may get."""

    min_slots: int
    shrink_to: ShrinkTo

    def sizes(self, wish: int, slots_per_node: int) -> list[int]:
        """From the wish down: whole nodes, then powers of two (or any size), last `min_slots`."""
        least = min(self.min_slots, wish)
        nodes = range(slots_per_node, wish, slots_per_node)
        parts: Iterable[int] = range(1, slots_per_node)
        if self.shrink_to is ShrinkTo.POWER_OF_TWO:
            parts = (1 << power for power in range((slots_per_node - 1).bit_length()))
        smaller = {size for size in (*nodes, *parts, least) if least <= size < wish}
        return [wish, *sorted(smaller, reverse=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Slots by trial, in order of rank, without trials that get none; and seats that prove it."""

    targets: Mapping[TrialId, int]
    seats: Seats


def grant(task: GangTask, shrinking: Shrinking) -> Grant:
    """What the targets of this task shrink to, whichever gangs stay."""
    ladders = {trial: shrinking.sizes(wish, task.slots_per_node) for trial, wish in task.targets.items()}
    # Shrunk gangs may have sizes of their own, for which room should be left.
    fitter = Fitter({size for ladder in ladders.values() for size in ladder}, task.slots_per_node)
    board = PlacementBoard(task.open_slots, task.slots_per_node)
    board.close(task.closing)
    trials = list(task.targets)
    units, holes = _pack_best(task, fitter, board.holes)
    seats = fill(board, units, holes, task.before)
    targets = {trial: task.targets[trial] for trial in trials[: len(seats)]}
    for trial in trials[len(seats) :]:
        for size in ladders[trial]:
            parts = units_of(size, task.slots_per_node)
            found = fitter.fit(parts, board.holes)
            if found is not None:
                seats |= fill(board, [(part, trial) for part in parts], found, task.before)
                targets[trial] = size
                break
    return Grant(targets=targets, seats=seats)


def _pack_best(task: GangTask, fitter: Fitter, holes: Sequence[int]) -> tuple[Units, list[int]]:
    """The units of as many best-ranked trials as can be packed together, and a hole for each."""
    trials = list(task.targets)

    def attempt(count: int) -> tuple[Units, list[int] | None]:
        units = task.units(trials[:count])
        return units, fitter.fit([size for size, _ in units], holes)

    units, found = attempt(len(trials))
    if found is None:
        count = bisect_left(range(1, len(trials)), True, key=lambda count: attempt(count)[1] is None)
        units, found = attempt(count)
    return units, found or []


def place(request: PlacementRequest, *, closing: int = 0) -> Placement:
    """Seat all wishes on the staying nodes, so that `closing` of them are empty."""
    task = survey(request, closing=closing)
    granted = grant(task, Shrinking(min_slots=request.min_slots, shrink_to=request.shrink_to))
    shrunk = replace(task, targets=granted.targets)
    smaller, seats = _arrange(shrunk, granted.seats), None
    if granted.targets != task.targets and not task.lack({}):
        # With sizes that do not divide each other, the present seats, or the new ones, may have room for all
        # wishes though packing from scratch failed. Both are tried, so that a second call changes nothing.
        again = replace(task, before=smaller, held=granted.targets)
        seats = _try_to_arrange(task) or _try_to_arrange(again)
    gangs = gangs_of(request, shrunk, smaller) if seats is None else gangs_of(request, task, seats)
    return describe(request, gangs)


def pack(request: PlacementRequest, *, nodes_kept: int) -> Packing:
    """Seat all wishes on `nodes_kept` of the staying nodes; release the others, oldest first.

    Leaving nodes are released, too. A node with a locked gang cannot be: then fewer are.
    """
    if nodes_kept < 0:
        raise InvariantError(f"nodes_kept is {nodes_kept}, expected 0 or more")
    surplus = max(0, len(request.cluster.staying) - nodes_kept)
    placement = place(request, closing=surplus)
    used, leaving = placement.used_nodes, request.cluster.leaving
    empty = [node for node in request.cluster.nodes if node not in used]
    release = leaving.union([node for node in empty if node not in leaving][:surplus])
    return Packing(placement=placement, release=tuple(node for node in empty if node in release))


def _arrange(task: GangTask, proof: Seats) -> Seats:
    """Seats for all targets with few moves; `proof` are some that are known."""
    seats = _try_to_arrange(task)
    return proof if seats is None else min(seats, proof, key=task.moves)


def _try_to_arrange(task: GangTask) -> Seats | None:
    """Seats for all targets with few moves; None if none were found."""
    evicted = evict(task)
    seats = None if evicted is None else seat(task, evicted)
    if seats is not None:
        return seats
    ways = [displace(task), displace(task, evicted) if evicted else None]
    return min((way for way in ways if way is not None), key=task.moves, default=None)
