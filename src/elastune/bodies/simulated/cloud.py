"""The simulated provider as the driver sees it: its surveys, told as events of the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from elastune.bodies.simulated.faults import Faults
from elastune.cluster import ClusterTerms
from elastune.core import AnyEvent
from elastune.core import events as ev
from elastune.place import NodeId
from elastune.providers import Belief, SimulatedProvider, Watcher
from elastune.providers import facts as seen


class Cloud:
    """Its own clock is ahead of the run's by `down_s`, the time for which the driver was down in all."""

    def __init__(
        self, terms: ClusterTerms, *, seed: int, faults: Faults, run_clock: Callable[[], float]
    ) -> None:
        self.down_s = 0.0
        self._run_clock = run_clock
        self.provider = SimulatedProvider(
            terms, seed=seed, clock=lambda: run_clock() + self.down_s, faults=faults.nodes
        )
        self._watcher = Watcher()

    def request(self, request: int, count: int) -> None:
        self._watcher.expect(str(request))
        self.provider.request(str(request), count)

    def release(self, nodes: tuple[NodeId, ...]) -> None:
        self._watcher.release(nodes)
        self.provider.release(nodes)

    def next_news_s(self) -> float | None:
        """When there will be something to tell, by the run's clock."""
        change_s = self.provider.next_change_s()
        if change_s is None:
            return None
        at_s = max(self._run_clock(), change_s - self.down_s)
        while at_s + self.down_s < change_s:  # rounding must not let us look a moment too early, for ever
            at_s = math.nextafter(at_s, math.inf)
        return at_s

    def look(self) -> Iterator[AnyEvent]:
        """What is new."""
        return self._tell_all(self._watcher.observe(self.provider.survey()))

    def come_back(self, down_s: float, belief: Belief) -> tuple[ev.Resumed, Iterator[AnyEvent]]:
        """A new driver looks around after `down_s`; `belief` is what it knows of nodes from its journal."""
        died_s = self._run_clock() + self.down_s
        self.down_s += down_s
        self._watcher = Watcher(belief)
        facts = self._watcher.observe(self.provider.survey())
        known = {machine.node for machine in belief.machines}
        lost = [fact for fact in facts if isinstance(fact, seen.Lost) and fact.node in known]
        others = [fact for fact in facts if fact not in lost]
        ends = {node: self.provider.ended_s(node) for node in sorted(belief.gone)}
        unreleased = [node for node, ended_s in ends.items() if ended_s is not None and ended_s > died_s]
        nodes = [*(fact.node for fact in lost), *unreleased]
        billed = tuple((node, self.provider.billed_s(node)) for node in nodes)
        return ev.Resumed(at_s=self._run_clock(), down_s=down_s, lost=billed), self._tell_all(others)

    def _tell_all(self, facts: Iterable[seen.Fact]) -> Iterator[AnyEvent]:
        for fact in facts:
            if isinstance(fact, seen.Granted):
                yield from self._tell_granted(fact)
            else:
                yield self._tell(fact)

    def _tell_granted(self, fact: seen.Granted) -> Iterator[AnyEvent]:
        """Nodes that were found late may have been billed for a while, and some may be gone again."""
        billed: dict[float, list[NodeId]] = {}
        for node in fact.nodes:
            billed.setdefault(self.provider.billed_s(node), []).append(node)
        for billed_s, nodes in billed.items():
            yield ev.NodesGranted(
                at_s=self._run_clock(),
                request=int(fact.token),
                nodes=tuple(nodes),
                billed_s=billed_s,
                usd_per_hour=fact.usd_per_hour,
            )

    def _tell(self, fact: seen.Refused | seen.Ready | seen.Noticed | seen.Lost | seen.Orphaned) -> AnyEvent:
        at_s = self._run_clock()
        match fact:
            case seen.Refused(token=token, count=count, reason=reason):
                return ev.NodesRefused(at_s=at_s, request=int(token), count=count, reason=reason)
            case seen.Ready(nodes=nodes):
                return ev.NodesReady(at_s=at_s, nodes=nodes)
            case seen.Noticed(node=node, until_s=until_s):
                return ev.NodeNoticed(at_s=at_s, node=node, until_s=until_s - self.down_s)
            case seen.Lost(node=node):
                known_s = self.provider.billed_s(node) if self.down_s else None
                return ev.NodeLost(at_s=at_s, node=node, billed_s=known_s)
            case seen.Orphaned(node=node):
                billed_s, usd = self.provider.billed_s(node), self.provider.usd_per_hour(node)
                return ev.NodeFound(at_s=at_s, node=node, billed_s=billed_s, usd_per_hour=usd)
