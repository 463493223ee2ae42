"""Which worker holds which partitions: evenly, replicas on different nodes, with few moves on changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from elastune.hopping.epoch import PartitionId, WorkerId

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    worker: WorkerId
    node: str
    names: tuple[str, ...] = ()  # of the node


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
    """The partitions of each worker, at most `most`.

    A partition stays with its holder (`before`) unless moving it balances the load. A partition that no
    worker may hold is left out.
    """
    holdings = _Holdings(places, sizes, hosts or {}, len(sizes) if most is None else most)
    for place in places:
        for partition in sorted((before or {}).get(place.worker, ())):
            holdings.put(partition, place)
    for partition in sorted(sizes, key=lambda each: (-sizes[each], each)):
        while len(holdings.holders[partition]) < replicas and holdings.spread(partition):
            pass
        if holdings.could_spread(partition, replicas):
            holdings.spread(partition)
    holdings.drop_extra(replicas)
    holdings.balance()
    holdings.use_idle()
    return {place.worker: frozenset(holdings.held[place.worker]) for place in places}


class _Holdings:
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
        self.holders: dict[PartitionId, list[WorkerPlace]] = {partition: [] for partition in sizes}

    def may(self, partition: PartitionId, place: WorkerPlace) -> bool:
        hosts = self.hosts.get(partition)
        is_near = not (hosts and place.names) or not hosts.isdisjoint(place.names)
        held = self.held[place.worker]
        return is_near and partition not in held and len(held) < self.most

    def put(self, partition: PartitionId, place: WorkerPlace) -> None:
        if partition in self.sizes and self.may(partition, place):
            self.held[place.worker].add(partition)
            self.holders[partition].append(place)

    def take(self, partition: PartitionId, place: WorkerPlace) -> None:
        self.held[place.worker].discard(partition)
        self.holders[partition].remove(place)

    def load(self, place: WorkerPlace) -> float:
        return sum(self._weight(each) for each in self.held[place.worker])

    def spread(self, partition: PartitionId) -> bool:
        """Add the holder with the least load, if possible on a node without a copy. False: there is none."""
        taken = {place.node for place in self.holders[partition]}
        free = [place for place in self.places if self.may(partition, place)]
        if not free:
            return False
        loads = {place.worker: self.load(place) for place in free}
        self.put(partition, min(free, key=lambda place: (place.node in taken, loads[place.worker])))
        return True

    def could_spread(self, partition: PartitionId, replicas: int) -> bool:
        """Whether its copies are on fewer nodes than possible."""
        nodes = {place.node for place in self.holders[partition]}
        free = {place.node for place in self.places if self.may(partition, place)}
        return len(nodes) < min(replicas, len(nodes | free))

    def drop_extra(self, replicas: int) -> None:
        """Remove surplus copies: first one of two on the same node, then that of the fullest worker."""
        for partition, holders in self.holders.items():
            while len(holders) > max(1, replicas):
                nodes = [place.node for place in holders]
                extra = max(holders, key=lambda place: (nodes.count(place.node) > 1, self.load(place)))
                self.take(partition, extra)

    def balance(self) -> None:
        """Move partitions from the fullest to the emptiest while that lowers the largest load."""
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
                    and not self._would_share_node(partition, full, empty)
                ]
                if fitting:
                    partition = max(fitting, key=lambda each: (self._weight(each), -each))
                    self.take(partition, full)
                    self.put(partition, empty)
                    return True
        return False

    def _weight(self, partition: PartitionId) -> float:
        """The load that a partition puts on each of its holders."""
        return self.sizes[partition] / len(self.holders[partition])

    def _would_share_node(self, partition: PartitionId, source: WorkerPlace, target: WorkerPlace) -> bool:
        """Whether the move puts two copies on one node that were on two."""
        nodes = {place.node for place in self.holders[partition] if place is not source}
        return target.node in nodes and source.node not in nodes

    def use_idle(self) -> None:
        """A worker without data gets a copy of the partition with the fewest holders."""
        for place in self.places:
            allowed = [each for each in self.sizes if self.may(each, place)]
            if not self.held[place.worker] and allowed:
                scarce = min(allowed, key=lambda each: (len(self.holders[each]), -self.sizes[each], each))
                self.put(scarce, place)
