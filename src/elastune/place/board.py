"""The board that placement works on: nodes are numbers, oldest first, and a gang is the nodes it lies on."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from elastune.place.fitting import Fitter, units_of
from elastune.place.request import TrialId

Seats = Mapping[TrialId, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Seat every target on the staying nodes and leave `closing` of them empty.

    `open_slots` is what locked gangs leave of each node; `targets` come in order of rank; `before` says which
    staying nodes gangs lie on now, and `held` how many slots they have if all their nodes stay.
    """

    slots_per_node: int
    open_slots: tuple[int, ...]
    targets: Mapping[TrialId, int]
    before: Seats
    held: Mapping[TrialId, int]
    closing: int

    @property
    def kept(self) -> dict[TrialId, tuple[int, ...]]:
        """The gangs that could stay where they are: on staying nodes, with the size they need."""
        return {t: self.before[t] for t, slots in self.targets.items() if self.held.get(t) == slots}

    def units(self, trials: Iterable[TrialId]) -> list[tuple[int, TrialId]]:
        """The units of these trials, largest first, then by rank."""
        wanted = set(trials)
        ranked = [trial for trial in self.targets if trial in wanted]
        units = [(u, trial) for trial in ranked for u in units_of(self.targets[trial], self.slots_per_node)]
        return sorted(units, key=lambda unit: -unit[0])

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
        """How much room is missing for the other targets if these gangs are seated so, by level."""
        fitter = self.fitter()
        free = Counter(self.free_slots(seated))
        units = [size for size, _ in self.units(self.targets.keys() - seated.keys())]
        units += [self.slots_per_node] * self.closing
        room = fitter.room(units, [free[hole] for hole in range(self.slots_per_node + 1)])
        return {level: -left for level, left in zip(fitter.levels, room, strict=True) if left < 0}

    def moves(self, seats: Seats) -> int:
        """How many gangs leave their place though their size and nodes would let them stay."""
        return sum(set(nodes) != set(seats[trial]) for trial, nodes in self.kept.items())


class Board:
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
        """Take the oldest empty nodes out of play, because minimum charges are paid on the old ones."""
        size = len(self.holes) - 1
        empty = [node for node, slots in enumerate(self.free) if slots == size][:count]
        for node in empty:
            self.shift(node, -size)
        return len(empty) == count

    def take(self, size: int, hole: int, preferred: Collection[int] = ()) -> int:
        """Put a unit into a hole of this size and say on which node."""
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


def seat(task: Task, evicted: Collection[TrialId]) -> Seats | None:
    """Keep all but the evicted gangs where they are and find room for the rest, if there is."""
    stay = {trial: nodes for trial, nodes in task.kept.items() if trial not in evicted}
    board = Board(task.free_slots(stay), task.slots_per_node)
    if not board.close(task.closing):
        return None
    units = task.units(task.targets.keys() - stay.keys())
    chosen = task.fitter().fit([size for size, _ in units], board.holes)
    return None if chosen is None else stay | fill(board, units, chosen, task.before)


def fill(
    board: Board, units: Sequence[tuple[int, TrialId]], chosen: Sequence[int], before: Seats
) -> dict[TrialId, tuple[int, ...]]:
    """Put every unit into its chosen hole, where a gang lay before if that is as good."""
    seats: dict[TrialId, tuple[int, ...]] = {}
    for (size, trial), hole in zip(units, chosen, strict=True):
        node = board.take(size, hole, before.get(trial, ()))
        seats[trial] = (*seats.get(trial, ()), node)
    return seats
