"""Nodes as the core knows them, their pools, and their free slots.

Nodes *wanted* by the policy, *requested* from the provider and *observed* are kept apart. `FreeSlots` finds a
place for a gang without looking at every node: best fit under colocation. A gang that fits on a node goes to
the fullest node that still has room; a larger one takes whole nodes. Moving gangs is left to `placement`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from elastune.errors import InvariantError
from elastune.model.ids import Gang, NodeId, Slot


@dataclass(slots=True)
class Node:
    """Billed from `born_s`, by the run's clock."""

    number: NodeId
    pool: int
    request: int
    born_s: float
    ready_s: float | None = None
    leaving: bool = False
    """Gets no new gangs and is released when empty: the provider gave notice, or it is surplus."""
    until_s: float | None = None
    """When the provider takes it away."""
    hosts: tuple[str, ...] = ()
    """Names and addresses of its machine, where data depend on them."""


@dataclass(slots=True)
class PoolNodes:
    """Nodes that serve one sequence of stages. Most policies have one; Hyperband has one per bracket."""

    number: int
    wanted: int = 0
    requested: dict[int, int] = field(default_factory=dict)
    """Nodes not yet granted or refused, by request."""
    asked: dict[int, int] = field(default_factory=dict)
    """The full size of those requests."""
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    """Oldest first."""
    ready: int = 0
    leaving: int = 0
    stage: int = 0
    retry_s: float | None = None
    """After a refusal: when to ask again."""
    refusals: int = 0
    """In a row."""
    late_boots: int = 0
    """Requests in a row whose nodes did not come up in time, while no other node was up."""

    @property
    def outstanding(self) -> int:
        return sum(self.requested.values()) if self.requested else 0

    @property
    def staying(self) -> int:
        """Nodes, up or booting, that are not leaving."""
        return len(self.nodes) - self.leaving

    @property
    def coming(self) -> int:
        """The same with those requested."""
        staying = len(self.nodes) - self.leaving
        return staying + self.outstanding if self.requested else staying

    @property
    def is_complete(self) -> bool:
        """No node is requested or booting."""
        return not self.outstanding and self.ready == self.staying


class FreeSlots:
    """The open nodes of a pool. `_by_free[k]` are those with k free slots, longest so first."""

    def __init__(self, slots_per_node: int) -> None:
        self.slots_per_node = slots_per_node
        self._free: dict[NodeId, list[int]] = {}
        self._by_free: list[dict[NodeId, None]] = [{} for _ in range(slots_per_node + 1)]

    @property
    def free_slots(self) -> int:
        return sum(len(nodes) * free for free, nodes in enumerate(self._by_free))

    def empty_nodes(self) -> Iterable[NodeId]:
        return self._by_free[self.slots_per_node]

    def __contains__(self, node: NodeId) -> bool:
        return node in self._free

    def open(self, node: NodeId, taken: Iterable[int] = ()) -> None:
        busy = set(taken)
        self._free[node] = [n for n in range(self.slots_per_node - 1, -1, -1) if n not in busy]
        self._by_free[len(self._free[node])][node] = None

    def close(self, node: NodeId) -> None:
        """The node gets no new gangs."""
        del self._by_free[len(self._free.pop(node))][node]

    def seat(self, slots: int) -> Gang | None:
        """Slots for a gang of this size; None if it does not fit without moving others."""
        size = self.slots_per_node
        if slots <= size:
            for free in range(slots, size + 1):
                for node in self._by_free[free]:
                    return tuple(Slot(node, number) for number in self._free[node][: -slots - 1 : -1])
            return None
        needed = -(-slots // size)
        nodes = tuple(islice(self._by_free[size], needed))
        if len(nodes) < needed:
            return None
        return tuple(Slot(node, number) for node in nodes for number in range(size))[:slots]

    def holds(self, gang: Gang) -> bool:
        """Whether all these slots are free."""
        return all(slot.number in self._free.get(slot.node, ()) for slot in self._reserved(gang))

    def take(self, gang: Gang) -> None:
        for node, numbers in self._by_node(gang).items():
            free = self._free[node]
            self._by_free[len(free)].pop(node)
            for number in numbers:
                if number not in free:
                    raise InvariantError(f"slot {number} of {node} is taken twice")
                free.remove(number)
            self._by_free[len(free)][node] = None

    def give(self, gang: Gang) -> None:
        """The slots are free again; those of closed nodes are forgotten."""
        for node, numbers in self._by_node(gang).items():
            free = self._free.get(node)
            if free is None:
                continue
            self._by_free[len(free)].pop(node)
            free.extend(numbers)
            free.sort(reverse=True)
            self._by_free[len(free)][node] = None

    def _reserved(self, gang: Gang) -> Gang:
        """The slots that others cannot use: of a gang larger than a node, all slots of its nodes."""
        if len(gang) <= self.slots_per_node:
            return gang
        nodes = dict.fromkeys(slot.node for slot in gang)
        return tuple(Slot(node, number) for node in nodes for number in range(self.slots_per_node))

    def _by_node(self, gang: Gang) -> dict[NodeId, list[int]]:
        found: dict[NodeId, list[int]] = {}
        for node, number in self._reserved(gang):
            found.setdefault(node, []).append(number)
        return found
