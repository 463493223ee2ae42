"""Turns successive surveys into facts.

The watcher's state is what it was told: requests (`expect`), releases (`release`) and facts (`learn`). A
survey only yields facts, which it then learns like any other. So what a journal keeps is enough to resume:
feed it to a new watcher, or start from the `Belief` that it amounts to, and the first survey tells what has
become of everything meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from elastune.place import NodeId
from elastune.providers.facts import Fact, Granted, Lost, Noticed, Orphaned, Ready, Refused, chronology
from elastune.providers.protocol import Fate, Machine, Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What a run takes for true about its machines."""

    machines: tuple[Machine, ...] = ()
    """Held, oldest first."""
    tokens: frozenset[str] = frozenset()
    """Of all requests ever made, answered or not."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Nodes refused so far, by token."""
    gone: frozenset[NodeId] = frozenset()
    """Once held, then released or lost: never held again."""


class Watcher:
    """Knows what the run believes, and tells how a survey differs from that."""

    def __init__(self, belief: Belief | None = None) -> None:
        belief = belief or Belief()
        self._held = {machine.node: machine for machine in belief.machines}
        self._tokens = set(belief.tokens)
        self._refused = dict(belief.refused)
        self._gone = set(belief.gone)
        self._orphans: set[NodeId] = set()
        self._read: dict[str, Fate] = {}

    @property
    def belief(self) -> Belief:
        return Belief(
            machines=tuple(self._held.values()),
            tokens=frozenset(self._tokens),
            refused=dict(self._refused),
            gone=frozenset(self._gone),
        )

    def expect(self, token: str) -> None:
        """Machines of this request are ours. To be told before the provider is asked."""
        self._tokens.add(token)

    def release(self, nodes: Collection[NodeId]) -> None:
        """These go because the run wants it: no loss. Should they stay, they are orphans."""
        for node in nodes:
            self._held.pop(node, None)
        self._gone.update(nodes)

    def observe(self, survey: Survey) -> tuple[Fact, ...]:
        """What the survey tells beyond what is believed, in order of time."""
        if self._orphans:  # one that was gone in between is told again
            self._orphans &= {machine.node for machine in survey.machines}
        facts = sorted([*self._compare_machines(survey), *self._compare_fates(survey)], key=chronology)
        for fact in facts:
            self.learn(fact)
        return tuple(facts)

    def learn(self, fact: Fact) -> None:
        """Take a fact for true. What it says of nodes that were given up meanwhile no longer matters."""
        match fact:
            case Granted(at_s=at_s, token=token, nodes=nodes, usd_per_hour=usd):
                new = (node for node in nodes if node not in self._gone)
                self._held |= {
                    node: Machine(node=node, token=token, since_s=at_s, usd_per_hour=usd) for node in new
                }
            case Ready(at_s=at_s, nodes=nodes):
                held = (self._held[node] for node in nodes if node in self._held)
                self._held |= {machine.node: replace(machine, ready_s=at_s) for machine in held}
            case Noticed(node=node, until_s=until_s):
                if node in self._held:
                    self._held[node] = replace(self._held[node], until_s=until_s)
            case Lost(node=node):
                self._held.pop(node, None)
                self._gone.add(node)
            case Refused(token=token, count=count):
                self._refused[token] = self._refused.get(token, 0) + count
            case Orphaned(node=node):
                self._orphans.add(node)

    def _compare_machines(self, survey: Survey) -> Iterator[Fact]:
        granted: dict[tuple[float, str, float | None], list[NodeId]] = {}
        ready: dict[float, list[NodeId]] = {}
        still_held = 0
        for machine in survey.machines:
            node, known = machine.node, self._held.get(machine.node)
            if known is not None:
                still_held += 1
            elif machine.token not in self._tokens or node in self._gone:
                if node not in self._orphans:
                    yield Orphaned(at_s=survey.at_s, node=node)
                continue
            else:
                key = machine.since_s, machine.token, machine.usd_per_hour
                granted.setdefault(key, []).append(node)
            if machine.ready_s is not None and (known is None or known.ready_s is None):
                ready.setdefault(machine.ready_s, []).append(node)
            if machine.until_s is not None and (known is None or known.until_s != machine.until_s):
                yield Noticed(at_s=survey.at_s, node=node, until_s=machine.until_s)
        for (since_s, token, usd), nodes in granted.items():
            yield Granted(at_s=since_s, token=token, nodes=tuple(nodes), usd_per_hour=usd)
        for ready_s, nodes in ready.items():
            yield Ready(at_s=ready_s, nodes=tuple(nodes))
        if still_held < len(self._held):
            listed = {machine.node for machine in survey.machines}
            yield from (Lost(at_s=survey.at_s, node=node) for node in self._held if node not in listed)

    def _compare_fates(self, survey: Survey) -> Iterator[Fact]:
        ours = (fate for fate in survey.fates if fate.token in self._tokens)
        news = [fate for fate in ours if fate != self._read.get(fate.token)]
        if not news:
            return
        known = {machine.node for machine in survey.machines} | self._held.keys() | self._gone
        for fate in news:
            self._read[fate.token] = fate
            refused = fate.refused - self._refused.get(fate.token, 0)
            if refused > 0:
                yield Refused(at_s=survey.at_s, token=fate.token, count=refused, reason=fate.reason)
            yield from _missed(fate, tuple(node for node in fate.granted if node not in known), survey.at_s)


def _missed(fate: Fate, nodes: tuple[NodeId, ...], at_s: float) -> Iterator[Fact]:
    """Nodes that came and went between two surveys. They are told, because they were paid for."""
    for usd in dict.fromkeys(map(fate.prices.get, nodes)):
        alike = tuple(node for node in nodes if fate.prices.get(node) == usd)
        yield Granted(at_s=at_s, token=fate.token, nodes=alike, usd_per_hour=usd)
    if nodes:
        yield from (Lost(at_s=at_s, node=node) for node in nodes)
