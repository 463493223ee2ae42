"""The nodes of a run: their times and, by the provider's billing rules, their cost."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace

from elastune.core.commands import ReleaseNodes, RequestNodes
from elastune.core.events import NodeNoticed, NodesGranted, NodesReady, NodesRefused
from elastune.model.billing import charged_s, ingress_usd, node_rate
from elastune.model.cluster import ClusterTerms
from elastune.model.ids import NodeId


@dataclass(slots=True, kw_only=True)
class NodeLife:
    """One node from the request to its end. None: it did not happen, or not yet."""

    node: NodeId
    requested_s: float | None = None
    born_s: float  # billing and boot begin
    ready_s: float | None = None
    noticed_s: float | None = None  # when the provider announced the reclaim
    ended_s: float | None = None
    lost: bool = False  # reclaimed or failed; False: released, or still held
    down_s: float = 0.0  # billed while the driver was down and the run's clock was stopped
    billed_s: float = 0.0  # once it has ended
    usd_per_s: float = 0.0
    usd: float = 0.0
    request: int | None = None  # the request it answers; None: unknown
    together: int = 1  # nodes in the same request, this one included

    def until_s(self, end_s: float) -> float:
        return end_s if self.ended_s is None else self.ended_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    at_s: float
    nodes: int
    reason: str


@dataclass(slots=True)
class _Request:
    asked_s: float
    count: int
    left: int


class NodeBook:
    """If slots are billed instead of nodes, a node costs only its data."""

    def __init__(self, cluster: ClusterTerms) -> None:
        self._cluster = cluster
        self._nodes: dict[NodeId, NodeLife] = {}
        self._held: dict[NodeId, NodeLife] = {}
        self._asked: dict[int, _Request] = {}  # requests not fully answered
        self._bends: list[float] = []  # when minimum charges are used up and the bill starts to rise
        self._closed_usd = 0.0
        self.refusals: list[Refusal] = []
        self.usd_before: float | None = None
        """What was owed when the first change of this event came; None: nothing has changed."""

    def usd(self, at_s: float) -> float:
        return self._closed_usd + sum(self._owed_usd(node, at_s) for node in self._held.values())

    def _change(self, at_s: float) -> None:
        """Before a change: what is owed is asked only where the bill bends, not at every event."""
        if self.usd_before is None:
            self.usd_before = self.usd(at_s)

    def bends_before(self, at_s: float) -> Iterator[float]:
        while self._bends and self._bends[0] < at_s:
            yield heapq.heappop(self._bends)

    def is_held(self, node: NodeId) -> bool:
        return node in self._held

    def requested(self, command: RequestNodes, at_s: float) -> None:
        """After an outage the same request is repeated; earlier answers to it stay valid."""
        self._asked.setdefault(command.request, _Request(at_s, command.count, command.count))

    def granted(self, event: NodesGranted) -> None:
        if event.request not in self._asked:  # no longer needed: the core releases them
            for name in event.nodes:
                self.found(name, event.at_s, event.billed_s, event.usd_per_hour)
            return
        request = self._asked[event.request]
        self._answered(event.request, len(event.nodes))
        self._change(event.at_s)
        for name in event.nodes:
            node = self._held[name] = self._born(name, event.at_s - event.billed_s, event.usd_per_hour)
            node.requested_s, node.request, node.together = request.asked_s, event.request, request.count
            bend_s = node.born_s + charged_s(self._cluster, 0.0)
            if node.usd_per_s and bend_s > event.at_s:
                heapq.heappush(self._bends, bend_s)

    def _born(self, name: NodeId, born_s: float, usd_per_hour: float | None) -> NodeLife:
        usd_per_s = node_rate(self._cluster, usd_per_hour)
        node = self._nodes[name] = NodeLife(node=name, born_s=born_s, usd_per_s=usd_per_s)
        self._pay(node, ingress_usd(self._cluster, 1))
        return node

    def refused(self, event: NodesRefused) -> None:
        self.refusals.append(Refusal(at_s=event.at_s, nodes=event.count, reason=event.reason))
        self._answered(event.request, event.count)

    def ready(self, event: NodesReady) -> None:
        for name in event.nodes:
            node = self._held.get(name)
            if node is not None and node.ready_s is None:
                node.ready_s = event.at_s

    def noticed(self, event: NodeNoticed) -> None:
        node = self._held.get(event.node)
        if node is not None:
            node.noticed_s = event.at_s

    def released(self, command: ReleaseNodes, at_s: float) -> None:
        for name in command.nodes:
            if name in self._held:
                self.end(name, at_s)

    def end(self, name: NodeId, at_s: float, *, lost: bool = False, billed_s: float | None = None) -> None:
        self._change(at_s)
        node = self._held.pop(name)
        lived_s = at_s - node.born_s + node.down_s
        node.ended_s, node.lost = at_s, lost
        node.billed_s = charged_s(self._cluster, lived_s if billed_s is None else billed_s)
        self._pay(node, node.usd_per_s * node.billed_s)

    def found(self, name: NodeId, at_s: float, billed_s: float, usd_per_hour: float | None = None) -> None:
        """A node that was billed but unknown, or billed after its end."""
        self._change(at_s)
        node = self._nodes.get(name) or self._born(name, at_s - billed_s, usd_per_hour)
        more_s = charged_s(self._cluster, billed_s) - node.billed_s
        node.billed_s += more_s
        node.ended_s = at_s
        self._pay(node, node.usd_per_s * more_s)

    def down(self, down_s: float, at_s: float) -> None:
        self._change(at_s)
        for node in self._held.values():
            node.down_s += down_s

    def lives(self, now_s: float) -> tuple[NodeLife, ...]:
        """Copies; `usd` of a node that is still held is its cost so far."""
        return tuple(
            replace(node, usd=node.usd + (self._owed_usd(node, now_s) if name in self._held else 0.0))
            for name, node in self._nodes.items()
        )

    def _owed_usd(self, node: NodeLife, at_s: float) -> float:
        return node.usd_per_s * charged_s(self._cluster, at_s - node.born_s + node.down_s)

    def _pay(self, node: NodeLife, usd: float) -> None:
        node.usd += usd
        self._closed_usd += usd

    def _answered(self, request: int, count: int) -> None:
        asked = self._asked.get(request)
        if asked is None:
            return
        asked.left -= count
        if asked.left <= 0:
            del self._asked[request]
