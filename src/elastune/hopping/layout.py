"""Which worker holds which partitions: evenly, replicas on different nodes, with few moves on changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from elastune.hopping.epoch import PartitionId, WorkerId
from elastune.hopping.partitions import DataTerms

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


def lay_out_all(
    places: Sequence[WorkerPlace],
    data: DataTerms,
    before: Mapping[WorkerId, Collection[PartitionId]] | None = None,
) -> Layout:
    """The same for training and validation data together."""
    layout: Layout = {place.worker: frozenset() for place in places}
    for validation in (False, True):
        part = lay_out(
            places,
            data.sizes(validation=validation),
            replicas=data.replicas,
            before=before,
            hosts=dict(data.hosts),
            most=None if validation else data.most_per_worker,
        )
        layout = {worker: layout[worker] | held for worker, held in part.items()}
    return layout


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
        """Add the holder with the least load, if possible on a node without a copy. False: there is none.

        Of equal ones, one that shares no data with the holders so far, directly or by others: workers in
        pairs with the same data could only relieve each other, and not all others, when one is lost.
        """
        taken = {place.node for place in self.holders[partition]}
        free = [place for place in self.places if self.may(partition, place)]
        if not free:
            return False
        loads = {place.worker: self.load(place) for place in free}
        linked = self._linked_to(partition)
        self.put(
            partition,
            min(free, key=lambda place: (place.node in taken, loads[place.worker], place.worker in linked)),
        )
        return True

    def _linked_to(self, partition: PartitionId) -> set[WorkerId]:
        """The workers that share data with holders of this partition, directly or by others."""
        linked: set[WorkerId] = set()
        open_ = [place.worker for place in self.holders[partition]]
        while open_:
            worker = open_.pop()
            if worker not in linked:
                linked.add(worker)
                open_ += [place.worker for each in self.held[worker] for place in self.holders[each]]
        return linked

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


def shares_of_all(
    layout: Layout, numbers: Sequence[Sequence[PartitionId]], *, most: int | None = None
) -> dict[WorkerId, tuple[PartitionId, ...]]:
    """The members of a gang that trains one model on all data, and what each of them trains on, in order.

    All shares are equally long, because members sum their gradients in each step: first partitions that a
    member holds, then those left over, which all members read. `numbers`: the partitions for training, then
    those for validation. Empty: a member would have to hold more than `most` partitions for training.
    """
    training = _assign(layout, numbers[0])
    counts = {worker: len(held) for worker, held in training.items() if held}
    if not counts:
        return {}

    def left_over(each: int) -> tuple[int, int]:
        members = sum(count >= each for count in counts.values())
        return len(numbers[0]) - each * members, -members

    enough = [each for each in set(counts.values()) if -2 * left_over(each)[1] > len(counts)]
    each = min(enough, key=left_over)
    members = [worker for worker, count in counts.items() if count >= each]
    if most is not None and each + left_over(each)[0] > most:
        return {}
    shares: dict[WorkerId, tuple[PartitionId, ...]] = dict.fromkeys(members, ())
    for kind in numbers:
        held = _assign({worker: layout[worker] for worker in members}, kind)
        own = min(len(held[worker]) for worker in members)
        taken = {worker: tuple(held[worker][:own]) for worker in members}
        rest = tuple(sorted(set(kind).difference(*taken.values())))
        shares = {worker: (*shares[worker], *taken[worker], *rest) for worker in members}
    return shares


def _assign(layout: Layout, numbers: Sequence[PartitionId]) -> dict[WorkerId, list[PartitionId]]:
    """Each partition to one of its holders, as evenly as possible: as many workers as possible get one, then
    as many as possible a second one, and so on."""
    holders = {number: [worker for worker, held in layout.items() if number in held] for number in numbers}
    assigned: dict[WorkerId, list[PartitionId]] = {worker: [] for worker in layout}
    open_ = [number for number in numbers if holders[number]]
    for most in range(1, len(numbers) + 1):
        open_ = [number for number in open_ if not _put(number, holders, assigned, most, set())]
    return {worker: sorted(held) for worker, held in assigned.items()}


def _put(
    number: PartitionId,
    holders: Mapping[PartitionId, Sequence[WorkerId]],
    assigned: dict[WorkerId, list[PartitionId]],
    most: int,
    tried: set[WorkerId],
) -> bool:
    """Find a holder with fewer than `most`, perhaps by giving what one has to another (Kuhn's matching)."""
    for worker in holders[number]:
        if worker in tried:
            continue
        tried.add(worker)
        held = assigned[worker]
        if len(held) < most:
            held.append(number)
            return True
        for place, other in enumerate(held):
            if _put(other, holders, assigned, most, tried):
                held[place] = number
                return True
    return False
