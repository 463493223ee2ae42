"""The placement controller (RubberBand section 4.4): which slots of which nodes every trial gets.

In this order: all wishes are placed (or shrunk, see `granting`); the nodes to be released are empty; as few
gangs as possible move. A gang that has the size it needs stays unless it must give way (`evicting`); the
others go largest first into the best hole (`fitting`). If that does not end in a packing, gangs displace
smaller ones as in Algorithm 3 (`displacing`), or else the seats that prove the grant are taken.
"""

from __future__ import annotations

from dataclasses import replace

from elastune.errors import InvariantError
from elastune.place.board import Seats, Task, seat
from elastune.place.displacing import displace
from elastune.place.evicting import evict
from elastune.place.granting import Shrinking, grant
from elastune.place.placement import Packing, Placement, describe
from elastune.place.request import Request
from elastune.place.seating import gangs_of, survey


def place(request: Request) -> Placement:
    """Seat all wishes on the staying nodes."""
    return _settle(request, closing=0)


def pack(request: Request, *, nodes_kept: int) -> Packing:
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


def _settle(request: Request, *, closing: int) -> Placement:
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


def _arrange(task: Task, proof: Seats) -> Seats:
    """Seats for all targets, which are known to have seats, with few moves."""
    seats = _try_to_arrange(task)
    return proof if seats is None else min(seats, proof, key=task.moves)


def _try_to_arrange(task: Task) -> Seats | None:
    """Seats for all targets with few moves; None if no way was found."""
    evicted = evict(task)
    seats = None if evicted is None else seat(task, evicted)
    if seats is not None:
        return seats
    ways = [displace(task), displace(task, evicted) if evicted else None]
    return min((way for way in ways if way is not None), key=task.moves, default=None)
