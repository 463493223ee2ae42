"""Turns a provider's surveys into events of the core, for both runtimes.

The watcher knows the requests (`expect`), the releases (`release`) and what surveys showed. The journal has
all of that, too: a driver that resumes a run starts from the `Belief` that its journal amounts to, and the
first survey shows what happened in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from elastune.core.events import NodeFound, NodeLost, NodeNoticed, NodesGranted, NodesReady, NodesRefused
from elastune.model.ids import NodeId
from elastune.providers.protocol import Machine, RequestStatus, Survey

NodeEvent = NodesGranted | NodesRefused | NodesReady | NodeNoticed | NodeLost | NodeFound
_AT_ONE_INSTANT = (NodesGranted, NodesRefused, NodesReady, NodeNoticed, NodeLost, NodeFound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What a run knows about its machines."""

    machines: tuple[Machine, ...] = ()
    """Held, oldest first."""
    requests: frozenset[int] = frozenset()
    """All ever made, answered or not. The token of a request is its number."""
    refused: Mapping[int, int] = field(default_factory=dict)
    """Nodes refused so far, by request."""
    gone: frozenset[NodeId] = frozenset()
    """Once held, then released or lost: never held again."""


class Watcher:
    """Compares surveys with the run's belief.

    `billed_s` returns for how long a node, there or gone, was billed, where the provider knows: it may see
    the end of a node late. None: for as long as it was listed.
    """

    def __init__(
        self,
        belief: Belief | None = None,
        *,
        billed_s: Callable[[NodeId], float | None] = lambda node: None,  # noqa: ARG005
    ) -> None:
        belief = belief or Belief()
        self._held = {machine.node: machine for machine in belief.machines}
        self._requests = {str(request): request for request in belief.requests}
        self._refused = dict(belief.refused)
        self._gone = set(belief.gone)
        self._orphans: set[NodeId] = set()
        self._read: dict[str, RequestStatus] = {}
        self._billed_s = billed_s

    @property
    def belief(self) -> Belief:
        return Belief(
            machines=tuple(self._held.values()),
            requests=frozenset(self._requests.values()),
            refused=dict(self._refused),
            gone=frozenset(self._gone),
        )

    def expect(self, request: int) -> str:
        """Machines of this request are ours. Call this before `request`, which takes the returned token."""
        self._requests[str(request)] = request
        return str(request)

    def release(self, nodes: Collection[NodeId]) -> None:
        """The run releases these, so they are not lost. Those that stay listed are found again."""
        for node in nodes:
            self._held.pop(node, None)
        self._gone.update(nodes)

    def observe(self, survey: Survey, now_s: float | None = None) -> tuple[NodeEvent, ...]:
        """How the survey differs from the belief, in order of time; `now_s`: the time of the events."""
        now_s = survey.at_s if now_s is None else now_s
        if self._orphans:  # one that was gone in between is reported again
            self._orphans &= {machine.node for machine in survey.machines}
        news = [*self._read_machines(survey, now_s), *self._read_requests(survey, now_s)]
        return tuple(event for _, event in sorted(news, key=_chronology))

    def _read_machines(self, survey: Survey, now_s: float) -> Iterator[tuple[float, NodeEvent]]:
        granted: dict[tuple[float, str, float | None, float], list[NodeId]] = {}
        ready: dict[float, list[NodeId]] = {}
        seen = 0
        for machine in survey.machines:
            node, known = machine.node, self._held.get(machine.node)
            if known is None:
                if machine.token not in self._requests or node in self._gone:
                    yield from self._find(machine, survey.at_s, now_s)
                    continue
                key = machine.since_s, machine.token, machine.usd_per_hour, self._billed(machine, now_s)
                granted.setdefault(key, []).append(node)
                known = self._held[node] = replace(machine, ready_s=None, until_s=None)
            seen += 1
            if machine.ready_s is not None and known.ready_s is None:
                ready.setdefault(machine.ready_s, []).append(node)
                known = self._held[node] = replace(known, ready_s=machine.ready_s)
            if machine.until_s is not None and known.until_s != machine.until_s:
                self._held[node] = replace(known, until_s=machine.until_s)
                yield survey.at_s, NodeNoticed(at_s=now_s, node=node, until_s=machine.until_s)
        for (since_s, token, usd, billed_s), nodes in granted.items():
            yield since_s, self._grant(token, nodes, billed_s, usd, now_s)
        for ready_s, nodes in ready.items():
            yield ready_s, NodesReady(at_s=now_s, nodes=tuple(nodes))
        if seen < len(self._held):
            listed = {machine.node for machine in survey.machines}
            yield from self._lose([node for node in self._held if node not in listed], survey.at_s, now_s)

    def _read_requests(self, survey: Survey, now_s: float) -> Iterator[tuple[float, NodeEvent]]:
        ours = (status for status in survey.requests if status.token in self._requests)
        news = [status for status in ours if status != self._read.get(status.token)]
        if not news:
            return
        known = {machine.node for machine in survey.machines} | self._held.keys() | self._gone
        for status in news:
            self._read[status.token] = status
            request = self._requests[status.token]
            count = status.refused - self._refused.get(request, 0)
            if count > 0:
                self._refused[request] = status.refused
                refused = NodesRefused(at_s=now_s, request=request, count=count, reason=status.reason)
                yield survey.at_s, refused
            missed = [node for node in status.granted if node not in known]
            for event in self._miss(status, missed, now_s):
                yield survey.at_s, event
            yield from self._lose(missed, survey.at_s, now_s)

    def _miss(self, status: RequestStatus, nodes: list[NodeId], now_s: float) -> Iterator[NodeEvent]:
        """Nodes that came and went between two surveys. They are granted, because they were paid for."""
        for usd, alike in _grouped(nodes, status.prices.get).items():
            for billed_s, some in _grouped(alike, self._billed_s).items():
                yield self._grant(status.token, some, billed_s or 0.0, usd, now_s)

    def _grant(
        self, token: str, nodes: Iterable[NodeId], billed_s: float, usd: float | None, now_s: float
    ) -> NodesGranted:
        request, granted = self._requests[token], tuple(nodes)
        return NodesGranted(at_s=now_s, request=request, nodes=granted, billed_s=billed_s, usd_per_hour=usd)

    def _lose(self, nodes: list[NodeId], at_s: float, now_s: float) -> Iterator[tuple[float, NodeEvent]]:
        for node in nodes:
            self._held.pop(node, None)
            self._gone.add(node)
            yield at_s, NodeLost(at_s=now_s, node=node, billed_s=self._billed_s(node))

    def _find(self, machine: Machine, at_s: float, now_s: float) -> Iterator[tuple[float, NodeEvent]]:
        """A machine that the run does not hold: of an unknown request, or given up and still listed. It costs
        money and does nothing, so the core releases it (again)."""
        if machine.node not in self._orphans:
            self._orphans.add(machine.node)
            billed_s, usd = self._billed(machine, now_s), machine.usd_per_hour
            yield at_s, NodeFound(at_s=now_s, node=machine.node, billed_s=billed_s, usd_per_hour=usd)

    def _billed(self, machine: Machine, now_s: float) -> float:
        billed_s = self._billed_s(machine.node)
        return max(0.0, now_s - machine.since_s) if billed_s is None else billed_s


def _grouped(
    nodes: Iterable[NodeId], key: Callable[[NodeId], float | None]
) -> dict[float | None, list[NodeId]]:
    groups: dict[float | None, list[NodeId]] = {}
    for node in nodes:
        groups.setdefault(key(node), []).append(node)
    return groups


def _chronology(news: tuple[float, NodeEvent]) -> tuple[float, int]:
    """By time and, within an instant, in the order of a node's life: granted, ready, noticed, lost."""
    came_about_s, event = news
    return came_about_s, _AT_ONE_INSTANT.index(type(event))
