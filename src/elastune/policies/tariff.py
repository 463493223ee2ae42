"""What rounds of training take on a cluster that has to boot, is billed by whole nodes, and saves.

Policies that think in wall-clock time (SEER and its relatives) are net of all that: they divide what is left
when boots, start-ups and saves are paid for. Means would be missed half of the time, so latencies that come
but once are taken with a margin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elastune.cluster import ClusterTerms
from elastune.cluster.billing import bills_nodes, ingress_usd, node_rate, slot_rate, unused_s
from elastune.core import RunTerms
from elastune.profiles import Distribution, Profile

_CAUTION_SDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """Gangs of these sizes, largest first, for so long, overheads included."""

    seconds: float
    gangs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    cluster: ClusterTerms
    profile: Profile
    save_s: float
    """Set aside for the last save."""

    @classmethod
    def of(cls, terms: RunTerms) -> Tariff:
        return cls(cluster=terms.cluster, profile=terms.profile, save_s=terms.save_allowance_s)

    @property
    def boot_s(self) -> float:
        return _cautious(self.cluster.queue) + _cautious(self.cluster.init)

    @property
    def start_s(self) -> float:
        return _cautious(self.profile.startup)

    @property
    def move_s(self) -> float:
        """A trial saves, and starts again with other slots."""
        return _cautious(self.profile.save) + self.start_s + 2 * self.profile.transfer_s

    def time_left_s(self, deadline_s: float, rounds: int) -> float:
        """For training in so many rounds one after the other."""
        return deadline_s - self.boot_s - self.start_s - (rounds - 1) * self.move_s - self.save_s

    def leg(self, number: int, seconds: float, gangs: tuple[int, ...]) -> Leg:
        """Round 0, 1, 2, ... of so many seconds of training."""
        return Leg(seconds=seconds + (self.move_s if number else self.start_s), gangs=gangs)

    def nodes_for(self, gangs: Iterable[int]) -> int:
        """As few nodes as hold them without scattering any: largest first, each where it fits best."""
        per_node = self.cluster.slots_per_node
        nodes = 0
        spare: Counter[int] = Counter()
        """Nodes by their free slots."""
        for size, count in sorted(Counter(gangs).items(), reverse=True):
            if size > per_node:
                nodes += count * -(-size // per_node)
                continue
            left = count
            for free in sorted(free for free in spare if free >= size):
                left = _fill(spare, free, size, left, spare[free])
            fresh = -(-left // (per_node // size))
            nodes += fresh
            spare[per_node] += fresh
            _fill(spare, per_node, size, left, fresh)
        return nodes

    def nodes_needed(self, tracks: Sequence[Sequence[Leg]]) -> int:
        """By everybody together, at most."""
        return max((nodes for _, nodes, _ in self._intervals(tracks)), default=0)

    def nodes_held(self, tracks: Sequence[Sequence[Leg]]) -> int:
        """At the start; nodes that a later round needs are held until then, a fixed cluster always."""
        return self.cluster.max_nodes if self.cluster.fixed else self.nodes_needed(tracks)

    def price_usd(self, tracks: Sequence[Sequence[Leg]], *, booted: bool = False) -> float:
        """Legs of one track follow each other, tracks run side by side; with the last save."""
        intervals = self._intervals(tracks)
        if not intervals:
            return 0.0
        cluster = self.cluster
        if not bills_nodes(cluster):
            ends = [sum(leg.seconds for leg in track) for track in tracks if track]
            slots = [sum(track[-1].gangs) for track in tracks if track]
            last = slots[max(range(len(ends)), key=ends.__getitem__)]
            slot_s = sum(seconds * busy for seconds, _, busy in intervals) + last * self.save_s
            fresh = 0 if booted else self.nodes_held(tracks)
            return slot_s * slot_rate(cluster) + ingress_usd(cluster, fresh)
        held = [cluster.max_nodes if cluster.fixed else nodes for _, nodes, _ in intervals]
        for index in range(len(held) - 2, -1, -1):
            held[index] = max(held[index], held[index + 1])
        age_s = 0.0 if booted else _cautious(cluster.init)
        node_s = held[0] * age_s
        for index, (seconds, _, _) in enumerate(intervals):
            last = index == len(intervals) - 1
            lasting = seconds + (self.save_s if last else 0.0)
            age_s += lasting
            released = held[index] - (0 if last else held[index + 1])
            short_s = 0.0 if booted else unused_s(cluster, age_s)
            node_s += held[index] * lasting + released * short_s
        fresh = 0 if booted else held[0]
        return node_s * node_rate(cluster) + ingress_usd(cluster, fresh)

    def leg_usd(self, leg: Leg, *, shared: bool) -> float:
        """One round alone, on nodes that are up; `shared` with other tracks: it pays for its slots."""
        cluster = self.cluster
        if shared or not bills_nodes(cluster):
            return leg.seconds * sum(leg.gangs) * cluster.slot_usd_per_s
        nodes = cluster.max_nodes if cluster.fixed else self.nodes_for(leg.gangs)
        return leg.seconds * nodes * node_rate(cluster)

    def seconds(self, tracks: Sequence[Sequence[Leg]]) -> float:
        """Until the last round is over, from when the first can begin."""
        return max((sum(leg.seconds for leg in track) for track in tracks), default=0.0)

    def _intervals(self, tracks: Sequence[Sequence[Leg]]) -> list[tuple[float, int, int]]:
        """(seconds, nodes, slots) between one round's end and the next."""
        if len(tracks) == 1:
            return [(leg.seconds, self.nodes_for(leg.gangs), sum(leg.gangs)) for leg in tracks[0]]
        ends: list[list[tuple[float, Leg]]] = []
        for track in tracks:
            at_s, mine = 0.0, []
            for leg in track:
                at_s += leg.seconds
                mine.append((at_s, leg))
            ends.append(mine)
        intervals, begin = [], 0.0
        for end in sorted({at_s for mine in ends for at_s, _ in mine}):
            running = [next((leg for at_s, leg in mine if at_s >= end), None) for mine in ends]
            gangs = [size for leg in running if leg is not None for size in leg.gangs]
            intervals.append((end - begin, self.nodes_for(gangs), sum(gangs)))
            begin = end
        return intervals


def _fill(spare: Counter[int], free: int, size: int, gangs: int, nodes: int) -> int:
    """Seat gangs on at most so many of the nodes with `free` free slots; returns how many are left over."""
    each = free // size
    full = min(nodes, gangs // each)
    spare[free] -= full
    spare[free - each * size] += full
    gangs -= full * each
    if gangs and full < nodes:
        spare[free] -= 1
        spare[free - gangs * size] += 1
        gangs = 0
    return gangs


def _cautious(latency: Distribution) -> float:
    return latency.mean + _CAUTION_SDS * latency.sd
