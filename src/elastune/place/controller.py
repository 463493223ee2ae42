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
from elastune.place.granting import Grant, Shrinking, grant
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
    empty = [node for node in request.cluster.nodes if node not in placement.used_nodes]
    closed = [node for node in empty if node not in request.cluster.leaving][:surplus]
    release = request.cluster.leaving | set(closed)
    return Packing(placement=placement, release=tuple(node for node in empty if node in release))


def _settle(request: Request, *, closing: int) -> Placement:
    task = survey(request, closing=closing)
    granted = grant(task, Shrinking(min_slots=request.min_slots, shrink_to=request.shrink_to))
    shrunk = replace(task, targets=granted.targets)
    if granted.targets == task.targets or task.lack({}):
        return describe(request, gangs_of(request, shrunk, _arrange(shrunk, granted)))
    # For other sizes packing from scratch is no proof: the present seats, or the new ones, may hold all.
    seats = _try_to_arrange(task)
    if seats is None:
        seats = _arrange(shrunk, granted)
        better = _try_to_arrange(replace(task, before=seats, held=granted.targets))
        if better is None:
            return describe(request, gangs_of(request, shrunk, seats))
        seats = better
    return describe(request, gangs_of(request, task, seats))


def _arrange(task: Task, granted: Grant) -> Seats:
    seats = _try_to_arrange(task, proof=granted.seats)
    return granted.seats if seats is None else seats


def _try_to_arrange(task: Task, *, proof: Seats | None = None) -> Seats | None:
    """Seats for all targets with few moves; None if neither way was found nor a proof was given."""
    evicted = evict(task)
    seats = None if evicted is None else seat(task, evicted)
    if seats is not None:
        return seats
    ways = [displace(task), displace(task, evicted) if evicted else None, proof]
    found = [way for way in ways if way is not None]
    return min(found, key=task.moves, default=None)
