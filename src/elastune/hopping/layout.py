"""Where partitions lie: spread evenly over the workers, replicas on different machines, moved as little as
possible when workers come and go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from elastune.hopping.epoch import PartitionId, WorkerId

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """A worker and the machine it is on, with the names that this has."""

    worker: WorkerId
    node: str
    names: tuple[str, ...] = ()


Layout = dict[WorkerId, frozenset[PartitionId]]


def lay_out(
    places: Sequence[WorkerPlace],
    sizes: Mapping[PartitionId, float],
    *,
    replicas: int = 1,
    before: Mapping[WorkerId, Collection[PartitionId]] | None = None,
    hosts: Mapping[int, frozenset[str]] | None = None,
    most: int | None = None,
) -> Layout:
    """Who holds what.

    What lies somewhere stays there unless that leaves another with less than it could take over. A
    partition that nobody may hold stays out; nobody may hold more than `most`.
    """
    shelves = _Shelves(places, sizes, hosts or {}, len(sizes) if most is None else most)
    for place in places:
        for partition in sorted((before or {}).get(place.worker, ())):
            shelves.put(partition, place)
    for partition in sorted(sizes, key=lambda each: (-sizes[each], each)):
        while len(shelves.holders(partition)) < replicas and shelves.spread(partition):
            pass
        if shelves.is_huddled(partition, replicas):
            shelves.spread(partition)
    shelves.thin_out(replicas)
    shelves.level()
    shelves.use_idle()
    return {place.worker: frozenset(shelves.held[place.worker]) for place in places}


class _Shelves:
    def __init__(
        self,
        places: Sequence[WorkerPlace],
        sizes: Mapping[PartitionId, float],
        hosts: Mapping[int, frozenset[str]],
        most: int,
    ) -> None:
        self.most = most
        self.places = places
        self.sizes = sizes
        self.hosts = hosts
        self.held: dict[WorkerId, set[PartitionId]] = {place.worker: set() for place in places}
        self._holders: dict[PartitionId, list[WorkerPlace]] = {partition: [] for partition in sizes}

    def may(self, partition: PartitionId, place: WorkerPlace) -> bool:
        hosts = self.hosts.get(partition)
        is_near = not (hosts and place.names) or not hosts.isdisjoint(place.names)
        held = self.held[place.worker]
        return is_near and partition not in held and len(held) < self.most

    def put(self, partition: PartitionId, place: WorkerPlace) -> None:
        if partition in self.sizes and self.may(partition, place):
            self.held[place.worker].add(partition)
            self._holders[partition].append(place)

    def take(self, partition: PartitionId, place: WorkerPlace) -> None:
        self.held[place.worker].discard(partition)
        self._holders[partition].remove(place)

    def holders(self, partition: PartitionId) -> list[WorkerPlace]:
        return self._holders[partition]

    def load(self, place: WorkerPlace) -> float:
        """A partition with several holders is a part of the load of each."""
        return sum(self.sizes[each] / len(self._holders[each]) for each in self.held[place.worker])

    def spread(self, partition: PartitionId) -> bool:
        """One more holder: the one with least, on a machine that has it not yet. False: there is none."""
        taken = {place.node for place in self._holders[partition]}
        free = [place for place in self.places if self.may(partition, place)]
        if not free:
            return False
        loads = {place.worker: self.load(place) for place in free}
        self.put(partition, min(free, key=lambda place: (place.node in taken, loads[place.worker])))
        return True

    def is_huddled(self, partition: PartitionId, replicas: int) -> bool:
        """Whether its copies are on fewer machines than they could be."""
        nodes = {place.node for place in self._holders[partition]}
        free = {place.node for place in self.places if self.may(partition, place)}
        return len(nodes) < min(replicas, len(nodes | free))

    def thin_out(self, replicas: int) -> None:
        """More holders than wanted, since others came or came back: one on the same machine as another gives
        it up, or the fullest."""
        for partition, holders in self._holders.items():
            while len(holders) > max(1, replicas):
                nodes = [place.node for place in holders]
                self.take(
                    partition, max(holders, key=lambda place: (nodes.count(place.node) > 1, self.load(place)))
                )

    def level(self) -> None:
        """Move partitions from the fullest to the emptiest while that brings the fullest down."""
        for _ in range(len(self.sizes) * len(self.places)):
            if not self._move():
                return

    def _move(self) -> bool:
        loads = {place.worker: self.load(place) for place in self.places}
        by_load = sorted(self.places, key=lambda place: loads[place.worker])
        for full in reversed(by_load):
            for empty in by_load:
                gap = loads[full.worker] - loads[empty.worker]
                fitting = [
                    partition
                    for partition in sorted(self.held[full.worker])
                    if self.may(partition, empty)
                    and self._weight(partition) < gap - _ROUNDING
                    and not self._would_meet(partition, full, empty)
                ]
                if fitting:
                    partition = max(fitting, key=lambda each: (self._weight(each), -each))
                    self.take(partition, full)
                    self.put(partition, empty)
                    return True
        return False

    def _weight(self, partition: PartitionId) -> float:
        return self.sizes[partition] / len(self._holders[partition])

    def _would_meet(self, partition: PartitionId, leaves: WorkerPlace, comes: WorkerPlace) -> bool:
        """Two copies on one machine, where they were on two."""
        nodes = {place.node for place in self._holders[partition] if place is not leaves}
        return comes.node in nodes and leaves.node not in nodes

    def use_idle(self) -> None:
        """A worker that has nothing takes a copy of what fewest others have."""
        for place in self.places:
            allowed = [each for each in self.sizes if self.may(each, place)]
            if not self.held[place.worker] and allowed:
                scarce = min(allowed, key=lambda each: (len(self._holders[each]), -self.sizes[each], each))
                self.put(scarce, place)
