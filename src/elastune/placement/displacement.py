"""RubberBand's Algorithm 3 under the colocation invariant: largest first, best fit, displace smaller gangs.

Used where `eviction` has no answer: for sizes that do not divide each other, and when an exact answer would
take too long. A gang that was seated here is not displaced again, so this ends. With sizes that divide each
other it always seats all (if there is room at all, some node has it once its smaller gangs are gone, and only
larger ones were seated before); with others it may fail.

Deviations: units are never split (the paper takes what a node has and goes on); a node is chosen by the
fewest gangs displaced, not by its free space; gangs of whole nodes are not displaced: that gains nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from functools import cache

from elastune.model.ids import TrialId
from elastune.placement.best_fit import GangTask, PlacementBoard, Seats

# Free slots of a node and the sizes of the gangs on it that can be displaced, largest first.
Shape = tuple[int, tuple[int, ...]]


def displace(task: GangTask, evicted: Collection[TrialId] = ()) -> Seats | None:
    """Seat all targets, starting without the evicted gangs; None if a unit finds no room."""
    return _Displacement(task, evicted).run()


class _Displacement:
    def __init__(self, task: GangTask, evicted: Collection[TrialId]) -> None:
        self._task = task
        self._fitter = task.fitter()
        self._rank = {trial: i for i, trial in enumerate(task.targets)}
        self._seats = {trial: nodes for trial, nodes in task.kept.items() if trial not in evicted}
        self._board = PlacementBoard(task.free_slots(self._seats), task.slots_per_node)
        self._tenants: list[list[TrialId]] = [[] for _ in task.open_slots]
        for trial, (node, *_) in self._seats.items():
            if task.targets[trial] < task.slots_per_node:
                self._tenants[node].append(trial)
        # Heaps of nodes; an entry counts only while the node has that shape.
        self._alike: dict[Shape, list[int]] = {}
        for node in range(len(task.open_slots)):
            self._refresh(node)
        waiting = task.units(task.targets.keys() - self._seats.keys())
        self._queue = [(-size, self._rank[trial], trial) for size, trial in waiting]
        heapq.heapify(self._queue)

    def run(self) -> Seats | None:
        if not self._close():
            return None
        while self._queue:
            size, _, trial = heapq.heappop(self._queue)
            node = self._find_room(-size, trial)
            if node is None:
                return None
            self._refresh(node)
            self._seats[trial] = (*self._seats.get(trial, ()), node)
        return self._seats

    def _close(self) -> bool:
        """Empty as many nodes as must be closed, then close the oldest empty ones."""
        size = self._task.slots_per_node
        while self._board.holes[size] < self._task.closing:
            if self._make_space(size) is None:
                return False
        return self._board.close(self._task.closing)

    def _find_room(self, size: int, trial: TrialId) -> int | None:
        hole = self._fitter.first_fit(size, self._board.holes)
        if hole is not None:
            return self._board.take(size, hole, self._task.before.get(trial, ()))
        node = self._make_space(size)
        if node is not None:
            self._board.shift(node, -size)
        return node

    def _make_space(self, size: int) -> int | None:
        """Displace gangs on the node where the fewest, then the smallest, must go."""
        prices = []
        for shape, nodes in list(self._alike.items()):
            while nodes and self._shape(nodes[0]) != shape:
                heapq.heappop(nodes)
            if not nodes:
                del self._alike[shape]
            elif sizes := _leavers(shape, size):
                prices.append((len(sizes), sum(sizes), nodes[0], sizes))
        if not prices:
            return None
        _, _, node, sizes = min(prices)
        for leaver_size in sizes:
            self._remove(node, leaver_size)
        self._refresh(node)
        return node

    def _remove(self, node: int, size: int) -> None:
        """Displace the lowest-ranked gang of this size."""
        alike = (trial for trial in self._tenants[node] if self._task.targets[trial] == size)
        trial = max(alike, key=self._rank.__getitem__)
        self._tenants[node].remove(trial)
        self._board.shift(node, size)
        del self._seats[trial]
        heapq.heappush(self._queue, (-size, self._rank[trial], trial))

    def _refresh(self, node: int) -> None:
        heapq.heappush(self._alike.setdefault(self._shape(node), []), node)

    def _shape(self, node: int) -> Shape:
        sizes = sorted((self._task.targets[trial] for trial in self._tenants[node]), reverse=True)
        return self._board.free[node], tuple(sizes)


@cache
def _leavers(shape: Shape, size: int) -> tuple[int, ...]:
    """The fewest gangs below `size` whose slots make room for it, the last of them no larger than needed."""
    free, sizes = shape
    need = size - free
    smaller = [other for other in sizes if other < size]
    if need <= 0 or sum(smaller) < need:
        return ()
    leavers: list[int] = []
    while need > smaller[0]:
        leavers.append(smaller.pop(0))
        need -= leavers[-1]
    return (*leavers, min(other for other in smaller if other >= need))
