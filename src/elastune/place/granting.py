"""How many slots every trial gets when not all wishes can be packed: colocation wins over a wish.

The best-ranked trials get their wishes as far down the ranking as these can be packed together. What is
left goes best first: every further trial gets the largest allowed size that still finds room, down to
`min_slots`, else nothing. So no gang shrinks in favour of a lower-ranked one, and none could be larger
without taking from a better one. A policy that would rather have all trials run asks for smaller gangs.

The answer depends on the nodes, the wishes and the locks, not on where the other gangs lie now: asking again
gives the same. It comes with seats that prove it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elastune.place.board import Board, Seats, Task, fill
from elastune.place.fitting import Fitter, units_of
from elastune.place.request import ShrinkTo, TrialId


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


def grant(task: Task, shrinking: Shrinking) -> Grant:
    """What the targets of this task shrink to. The gangs it keeps play no part."""
    ladders = {trial: shrinking.sizes(wish, task.slots_per_node) for trial, wish in task.targets.items()}
    # Leftovers have sizes of their own, for which room should be left.
    fitter = Fitter({size for ladder in ladders.values() for size in ladder}, task.slots_per_node)
    board = Board(task.open_slots, task.slots_per_node)
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
    task: Task, fitter: Fitter, holes: Sequence[int]
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
