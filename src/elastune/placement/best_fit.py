"""The board of placement: nodes are numbers, oldest first, and a gang is the nodes that it is on.

A hole is the free slots of one node; only its size matters. `Fitter` is RubberBand's `get_best_fit` with a
finer "best": a hole that loses no room for larger gangs comes first, compared from the whole node downwards;
then the smallest hole. (One slot into holes of 2 and 3: plain best fit leaves 1 + 3, room for one gang of 2;
this leaves 2 + 2, room for two.) If every size divides the next larger one, as powers of two do, largest
first into any hole places all gangs if that is possible: a larger gang takes exactly its multiple of the room
for smaller ones, wherever it goes. For other sizes a limited search follows when the first try fails.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from elastune.model.ids import TrialId

Seats = dict[TrialId, tuple[int, ...]]
Units = list[tuple[int, TrialId]]
MAX_SEARCH_UNITS = 48
MAX_SEARCH_STEPS = 2_000


def units_of(slots: int, slots_per_node: int) -> tuple[int, ...]:
    """The slots of a gang on each of its nodes: a part of one node, or whole nodes."""
    return (slots,) if slots <= slots_per_node else (slots_per_node,) * -(-slots // slots_per_node)


class Fitter:
    """Chooses holes for units of these sizes on nodes of this size."""

    def __init__(self, sizes: Iterable[int], slots_per_node: int) -> None:
        self.slots_per_node = slots_per_node
        parts = sorted({size for size in sizes if size < slots_per_node})
        self.levels = (*sorted({1, *parts} - {slots_per_node}), slots_per_node)
        # A whole node only fits an empty one, so it need not be a multiple of the others.
        self.divisible = all(larger % smaller == 0 for smaller, larger in pairwise(parts))
        self._orders: dict[int, tuple[int, ...]] = {}

    def first_fit(self, size: int, holes: Sequence[int]) -> int | None:
        """The best hole for one unit; `holes[f]` nodes have f free slots."""
        return next((hole for hole in self.order(size) if holes[hole]), None)

    def fit(self, units: Sequence[int], holes: Sequence[int]) -> list[int] | None:
        """A hole for every unit (largest first); None if none was found."""
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
        """No level lacks room: necessary for all sizes, sufficient for divisible ones."""
        return all(room >= 0 for room in self.room(units, holes))

    def room(self, units: Sequence[int], holes: Sequence[int]) -> list[int]:
        """For every level, how many more units of that size fit; negative: how many do not."""
        return [
            sum(count * (hole // level) for hole, count in enumerate(holes))
            - sum(size // level for size in units)
            for level in self.levels
        ]

    def order(self, size: int) -> tuple[int, ...]:
        """All holes for a unit of this size, best first."""
        if size not in self._orders:

            def loss(hole: int) -> list[int]:
                return [*(hole // level - (hole - size) // level for level in reversed(self.levels)), hole]

            self._orders[size] = tuple(sorted(range(size, self.slots_per_node + 1), key=loss))
        return self._orders[size]


class _Search:
    """Depth first over the holes of every unit; equal holes are one choice, failed states are kept."""

    def __init__(self, fitter: Fitter, units: Sequence[int]) -> None:
        self._fitter, self._units = fitter, units
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
                _fill(holes, hole, size, count=-1)
        self._failed.add(state)
        return False


def _fill(holes: list[int], hole: int, size: int, count: int = 1) -> None:
    holes[hole] -= count
    holes[hole - size] += count


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTask:
    """Seat every target on the staying nodes and leave `closing` of them empty.

    `open_slots`: what locked gangs leave of each node; `targets`: in order of rank; `before`: the present
    gangs' staying nodes; `held`: the slots of those whose nodes all stay.
    """

    slots_per_node: int
    open_slots: tuple[int, ...]
    targets: Mapping[TrialId, int]
    before: Seats
    held: Mapping[TrialId, int]
    closing: int

    @property
    def kept(self) -> Seats:
        """The gangs that could stay where they are: their nodes stay and their size is right."""
        return {t: self.before[t] for t, slots in self.targets.items() if self.held.get(t) == slots}

    def units(self, trials: Iterable[TrialId]) -> Units:
        """The units of these trials, largest first, then by rank."""
        wanted, size = set(trials), self.slots_per_node
        ranked = ((trial, slots) for trial, slots in self.targets.items() if trial in wanted)
        return sorted(((u, t) for t, slots in ranked for u in units_of(slots, size)), key=lambda u: -u[0])

    def free_slots(self, seated: Seats) -> list[int]:
        """What these gangs leave of each node."""
        free = list(self.open_slots)
        for trial, nodes in seated.items():
            for node, unit in zip(nodes, units_of(self.targets[trial], self.slots_per_node), strict=True):
                free[node] -= unit
        return free

    def fitter(self) -> Fitter:
        return Fitter(self.targets.values(), self.slots_per_node)

    def lack(self, seated: Seats) -> dict[int, int]:
        """By level, how many units of the other targets do not fit beside these gangs."""
        fitter, free = self.fitter(), Counter(self.free_slots(seated))
        units = [size for size, _ in self.units(self.targets.keys() - seated.keys())]
        units += [self.slots_per_node] * self.closing
        room = fitter.room(units, [free[hole] for hole in range(self.slots_per_node + 1)])
        return {level: -left for level, left in zip(fitter.levels, room, strict=True) if left < 0}

    def moves(self, seats: Seats) -> int:
        """How many gangs move that could stay."""
        return sum(set(nodes) != set(seats[trial]) for trial, nodes in self.kept.items())


class PlacementBoard:
    """Free slots per node, found by size. Among equal holes the youngest node is taken first."""

    def __init__(self, free: Sequence[int], slots_per_node: int) -> None:
        self.free = list(free)
        self.holes = [0] * (slots_per_node + 1)
        # Heaps of negated node numbers; an entry counts only while the node has that many free slots.
        self._nodes: list[list[int]] = [[] for _ in self.holes]
        for node, slots in enumerate(self.free):
            self._nodes[slots].append(-node)
            self.holes[slots] += 1
        for heap in self._nodes:
            heapq.heapify(heap)

    def close(self, count: int) -> bool:
        """Close the oldest empty nodes, because their minimum charges are paid."""
        size = len(self.holes) - 1
        empty = [node for node, slots in enumerate(self.free) if slots == size][:count]
        for node in empty:
            self.shift(node, -size)
        return len(empty) == count

    def take(self, size: int, hole: int, preferred: Collection[int] = ()) -> int:
        """Put a unit into a hole of this size; returns the node."""
        at_home = [node for node in preferred if self.free[node] == hole]
        node = max(at_home) if at_home else self._youngest(hole)
        self.shift(node, -size)
        return node

    def shift(self, node: int, slots: int) -> None:
        self.holes[self.free[node]] -= 1
        self.free[node] += slots
        self.holes[self.free[node]] += 1
        heapq.heappush(self._nodes[self.free[node]], -node)

    def _youngest(self, hole: int) -> int:
        heap = self._nodes[hole]
        while self.free[-heap[0]] != hole:
            heapq.heappop(heap)
        return -heap[0]


def seat(task: GangTask, evicted: Collection[TrialId]) -> Seats | None:
    """Keep all but the evicted gangs where they are and find room for the others, if there is any."""
    stay = {trial: nodes for trial, nodes in task.kept.items() if trial not in evicted}
    board = PlacementBoard(task.free_slots(stay), task.slots_per_node)
    if not board.close(task.closing):
        return None
    units = task.units(task.targets.keys() - stay.keys())
    chosen = task.fitter().fit([size for size, _ in units], board.holes)
    return None if chosen is None else stay | fill(board, units, chosen, task.before)


def fill(board: PlacementBoard, units: Units, chosen: Sequence[int], before: Seats) -> Seats:
    """Put every unit into its chosen hole, on a node of the gang's own if there is one."""
    seats: Seats = {}
    for (size, trial), hole in zip(units, chosen, strict=True):
        seats[trial] = (*seats.get(trial, ()), board.take(size, hole, before.get(trial, ())))
    return seats
