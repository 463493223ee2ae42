"""Which hole a gang goes into. A hole is the free slots of one node; only its size matters here.

RubberBand's `get_best_fit` with a finer notion of "best": a hole loses room for larger gangs or it does not,
and losing none comes first, from the whole node downwards; then the smallest hole. (One slot into holes of
2 and 3: the plain best fit leaves 1 + 3, room for one gang of 2; this one leaves 2 + 2, room for two.)

If every size divides the next larger one, as powers of two do, largest first into any hole finds room for
all whenever there is room: a larger gang takes exactly its multiple of the room for smaller ones, wherever
it goes. For other sizes a search with a limit of steps follows when the first try fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

MAX_SEARCH_UNITS = 48
MAX_SEARCH_STEPS = 2_000


def units_of(slots: int, slots_per_node: int) -> tuple[int, ...]:
    """What a gang takes on each of its nodes: one node with its slots, or whole nodes."""
    if slots <= slots_per_node:
        return (slots,)
    return (slots_per_node,) * -(-slots // slots_per_node)


class Fitter:
    """Chooses holes for units of these sizes on nodes of this size."""

    def __init__(self, sizes: Iterable[int], slots_per_node: int) -> None:
        self.slots_per_node = slots_per_node
        parts = sorted({size for size in sizes if size < slots_per_node})
        self.levels = (*sorted({1, *parts} - {slots_per_node}), slots_per_node)
        # A whole node only goes into an empty one, so it need not be a multiple of the others.
        self.divisible = all(larger % smaller == 0 for smaller, larger in pairwise(parts))
        self._orders: dict[int, tuple[int, ...]] = {}

    def first_fit(self, size: int, holes: Sequence[int]) -> int | None:
        """The best hole for one unit; `holes[f]` nodes have f free slots."""
        return next((hole for hole in self.order(size) if holes[hole]), None)

    def fit(self, units: Sequence[int], holes: Sequence[int]) -> list[int] | None:
        """A hole for every unit (largest first), or None if no way was found."""
        left, chosen = list(holes), []
        for size in units:
            hole = self.first_fit(size, left)
            if hole is None:
                break
            _fill(left, hole, size)
            chosen.append(hole)
        if len(chosen) == len(units):
            return chosen
        if self.divisible or len(units) > MAX_SEARCH_UNITS or not self.may_fit(units, holes):
            return None
        return _Search(self, units).run(holes)

    def may_fit(self, units: Sequence[int], holes: Sequence[int]) -> bool:
        """No level lacks room: necessary for all sizes, and enough for divisible ones."""
        return all(room >= 0 for room in self.room(units, holes))

    def room(self, units: Iterable[int], holes: Sequence[int]) -> list[int]:
        """For every level, how many more units of that size there is room for, negative if too few."""
        units = list(units)
        return [
            sum(count * (hole // level) for hole, count in enumerate(holes))
            - sum(size // level for size in units)
            for level in self.levels
        ]

    def order(self, size: int) -> tuple[int, ...]:
        """All holes that hold a unit of this size, best first."""
        if size not in self._orders:
            holes = range(size, self.slots_per_node + 1)
            self._orders[size] = tuple(sorted(holes, key=lambda hole: (*self._loss(hole, size), hole)))
        return self._orders[size]

    def _loss(self, hole: int, size: int) -> list[int]:
        return [hole // level - (hole - size) // level for level in reversed(self.levels)]


class _Search:
    """Depth first over the holes of every unit; equal holes are one choice, failed states are remembered."""

    def __init__(self, fitter: Fitter, units: Sequence[int]) -> None:
        self._fitter = fitter
        self._units = units
        self._failed: set[tuple[int, ...]] = set()
        self._steps = MAX_SEARCH_STEPS

    def run(self, holes: Sequence[int]) -> list[int] | None:
        chosen: list[int] = []
        return chosen if self._extend(chosen, list(holes)) else None

    def _extend(self, chosen: list[int], holes: list[int]) -> bool:
        if len(chosen) == len(self._units):
            return True
        state = (len(chosen), *holes)
        self._steps -= 1
        if self._steps < 0 or state in self._failed:
            return False
        size = self._units[len(chosen)]
        for hole in self._fitter.order(size):
            if holes[hole]:
                _fill(holes, hole, size)
                chosen.append(hole)
                if self._extend(chosen, holes):
                    return True
                chosen.pop()
                _fill(holes, hole, size, undo=True)
        self._failed.add(state)
        return False


def _fill(holes: list[int], hole: int, size: int, *, undo: bool = False) -> None:
    one = -1 if undo else 1
    holes[hole] -= one
    holes[hole - size] += one
