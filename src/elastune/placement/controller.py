"""Between nodes with names and slots, and the board on which placement works.

How many slots every trial gets when not all wishes can be packed: colocation wins over a wish.

The best-ranked trials get their wishes as far down the ranking as these can be packed together. What is
left goes best first: every further trial gets the largest allowed size that still finds room, down to
`min_slots`, else nothing. So no gang shrinks in favour of a lower-ranked one, and none could be larger
without taking from a better one. A policy that would rather have all trials run asks for smaller gangs.

The answer depends on the nodes, the wishes and the locks, not on where the other gangs lie now: asking again
gives the same. It comes with seats that prove it.

The placement controller (RubberBand section 4.4): which slots of which nodes every trial gets.

In this order: all wishes are placed (or shrunk, see `granting`); the nodes to be released are empty; as few
gangs as possible move. A gang that has the size it needs stays unless it must give way (`evicting`); the
others go largest first into the best hole (`fitting`). If that does not end in a packing, gangs displace
smaller ones as in Algorithm 3 (`displacing`), or else the seats that prove the grant are taken.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from elastune.errors import InvariantError
from elastune.model.ids import Gang, NodeId, Slot, TrialId
from elastune.placement.board import Fitter, GangTask, PlacementBoard, Seats, fill, seat, units_of
from elastune.placement.displacement import displace
from elastune.placement.eviction import evict
from elastune.placement.request import Packing, Placement, PlacementRequest, ShrinkTo, describe


def survey(request: PlacementRequest, *, closing: int) -> GangTask:
    """The request as a task: locked gangs are out of play, gangs with a lost node are forgotten."""
    size, staying = request.cluster.slots_per_node, request.cluster.staying
    number = {node: i for i, node in enumerate(staying)}
    locked = _locked_gangs(request)
    free = [size] * len(staying)
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
    """The slots of every gang. Who stays keeps its slots; who is resized in place keeps what it can."""
    size, staying = request.cluster.slots_per_node, request.cluster.staying
    gangs = _locked_gangs(request)
    gangs |= {
        trial: request.present[trial] for trial, at in task.kept.items() if set(seats[trial]) == set(at)
    }
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
    """So many free slots of a node, those that the gang had first."""
    slots = sorted((Slot(node, number) for number in free), key=lambda slot: (slot not in own, slot.number))[
        :count
    ]
    free -= {slot.number for slot in slots}
    return sorted(slots)


def _locked_gangs(request: PlacementRequest) -> dict[TrialId, Gang]:
    return {trial: gang for trial, gang in request.alive.items() if trial in request.locked}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinking:
    """Which sizes below its wish a gang may get."""

    min_slots: int
    shrink_to: ShrinkTo

    def sizes(self, wish: int, slots_per_node: int) -> list[int]:
        """From the wish down: whole nodes, then powers of two (or any size), at last `min_slots`."""
        least = min(self.min_slots, wish)
        nodes = range(slots_per_node, wish, slots_per_node)
        if self.shrink_to is ShrinkTo.ANY:
            parts = list(range(1, slots_per_node))
        else:
            parts = [1 << power for power in range((slots_per_node - 1).bit_length())]
        smaller = {size for size in (*nodes, *parts, least) if least <= size < wish}
        return [wish, *sorted(smaller, reverse=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Slots by trial, in order of rank and without those who get none; and a way to seat them."""

    targets: Mapping[TrialId, int]
    seats: Seats


def grant(task: GangTask, shrinking: Shrinking) -> Grant:
    """What the targets of this task shrink to. The gangs it keeps play no part."""
    ladders = {trial: shrinking.sizes(wish, task.slots_per_node) for trial, wish in task.targets.items()}
    # Leftovers have sizes of their own, for which room should be left.
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


def _pack_best(
    task: GangTask, fitter: Fitter, holes: Sequence[int]
) -> tuple[list[tuple[int, TrialId]], list[int]]:
    """The units of as many best-ranked trials as can be packed together, and a hole for each."""
    trials = list(task.targets)

    def attempt(count: int) -> tuple[list[tuple[int, TrialId]], list[int] | None]:
        units = task.units(trials[:count])
        return units, fitter.fit([size for size, _ in units], holes)

    units, found = attempt(len(trials))
    if found is None:
        count = bisect_left(range(1, len(trials)), True, key=lambda count: attempt(count)[1] is None)
        units, found = attempt(count)
    return units, found or []


def place(request: PlacementRequest) -> Placement:
    """Seat all wishes on the staying nodes."""
    return _settle(request, closing=0)


def pack(request: PlacementRequest, *, nodes_kept: int) -> Packing:
    """Seat all wishes on so many of the staying nodes; the others, oldest first, are to be released.

    Leaving nodes are released with them. A node with a locked gang cannot be: then fewer are.
    """
    if nodes_kept < 0:
        raise InvariantError(f"{nodes_kept} nodes are to be kept, expected 0 or more")
    surplus = max(0, len(request.cluster.staying) - nodes_kept)
    placement = _settle(request, closing=surplus)
    used, leaving = placement.used_nodes, request.cluster.leaving
    empty = [node for node in request.cluster.nodes if node not in used]
    closed = [node for node in empty if node not in leaving][:surplus]
    release = leaving.union(closed)
    return Packing(placement=placement, release=tuple(node for node in empty if node in release))


def _settle(request: PlacementRequest, *, closing: int) -> Placement:
    task = survey(request, closing=closing)
    granted = grant(task, Shrinking(min_slots=request.min_slots, shrink_to=request.shrink_to))
    shrunk = replace(task, targets=granted.targets)
    if granted.targets == task.targets or task.lack({}):  # all wishes, or proof that they are too many
        return describe(request, gangs_of(request, shrunk, _arrange(shrunk, granted.seats)))
    # For sizes that do not divide each other the present seats, or the new ones, may hold all wishes though
    # packing from scratch found no way. Trying both is what makes a second call change nothing.
    seats = _try_to_arrange(task)
    if seats is None:
        smaller = _arrange(shrunk, granted.seats)
        seats = _try_to_arrange(replace(task, before=smaller, held=granted.targets))
        if seats is None:
            return describe(request, gangs_of(request, shrunk, smaller))
    return describe(request, gangs_of(request, task, seats))


def _arrange(task: GangTask, proof: Seats) -> Seats:
    """Seats for all targets, which are known to have seats, with few moves."""
    seats = _try_to_arrange(task)
    return proof if seats is None else min(seats, proof, key=task.moves)


def _try_to_arrange(task: GangTask) -> Seats | None:
    """Seats for all targets with few moves; None if no way was found."""
    evicted = evict(task)
    seats = None if evicted is None else seat(task, evicted)
    if seats is not None:
        return seats
    ways = [displace(task), displace(task, evicted) if evicted else None]
    return min((way for way in ways if way is not None), key=task.moves, default=None)
