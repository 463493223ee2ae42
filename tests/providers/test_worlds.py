"""Random requests, releases, waits and crashes: events show all there is, and the bill is right.

Two clouds of the same seed are driven alike. One is surveyed at every change that it announces, the other
only now and then; what happens must not depend on that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from elastune.core.events import NodeFound, NodeLost, NodeNoticed, NodesGranted, NodesReady, NodesRefused
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant, Distribution, Empirical, LogNormal
from elastune.model.ids import NodeId
from elastune.providers.protocol import Machine, Survey
from elastune.providers.simulated_faults import NodeFaults
from elastune.providers.watcher import Belief, NodeEvent, Watcher
from tests.providers.clouds import Cloud, cloud, terms
from tests.thoroughness import examples

LATENCIES: st.SearchStrategy[Distribution] = st.sampled_from(
    [Constant(0.0), Constant(30.0), Empirical((0.0, 20.0, 90.0)), LogNormal(40.0, 30.0)]
)
FAULTS = st.builds(
    NodeFaults,
    lost_per_hour=st.sampled_from([0.0, 5.0, 50.0]),
    noticed_per_hour=st.sampled_from([0.0, 5.0, 50.0]),
    notice_s=st.sampled_from([0.0, 30.0, 120.0]),
    refused=st.sampled_from([0.0, 0.5]),
    boot_failure=st.sampled_from([0.0, 0.3]),
    capacity=st.sampled_from([None, 0, 4]),
)
TERMS = st.builds(
    terms,
    max_nodes=st.sampled_from([3, 20]),
    queue=LATENCIES,
    init=LATENCIES,
    billing=st.sampled_from(Billing),
    data_usd_per_node=st.sampled_from([0.0, 0.25]),
)


@dataclass
class Span:
    """A node as a bookkeeper with a watch would note it."""

    start_s: float
    end_s: float | None = None

    def usd(self, of: ClusterTerms, at_s: float) -> float:
        if of.billing is Billing.FUNCTION:
            return of.data_usd_per_node
        seconds = (at_s if self.end_s is None else self.end_s) - self.start_s
        return max(seconds, of.minimum_charge_s) / 3600.0 * of.price_per_hour + of.data_usd_per_node


class World(RuleBasedStateMachine):
    watched: Cloud
    unwatched: Cloud
    terms: ClusterTerms

    @initialize(of=TERMS, faults=FAULTS, seed=st.integers(0, 999), expires_s=st.sampled_from([None, 200.0]))
    def begin(self, of: ClusterTerms, faults: NodeFaults, seed: int, expires_s: float | None) -> None:
        self.watched, self.unwatched = (
            cloud(of, seed=seed, faults=faults, expires_s=expires_s) for _ in range(2)
        )
        self.terms, self.most = of, of.max_nodes if faults.capacity is None else faults.capacity
        self.watcher, self.lazy = Watcher(), Watcher()
        self.asked: dict[int, int] = {}
        self.refused: dict[int, int] = {}
        self.held: dict[NodeId, Machine] = {}
        self.gone: set[NodeId] = set()
        self.spans: dict[NodeId, Span] = {}
        self.look()

    def look(self) -> Survey:
        survey = self.watched.provider.survey()
        for event in self.watcher.observe(survey):
            self.note(event, survey.at_s)
        return survey

    def note(self, event: NodeEvent, now_s: float) -> None:
        assert event.at_s == now_s
        assert not isinstance(event, NodeFound)
        match event:
            case NodesGranted(request=request, nodes=nodes, usd_per_hour=usd):
                assert event.billed_s == 0.0, "who looks at every change learns of it when it happens"
                for node in nodes:
                    assert node not in self.spans
                    self.spans[node] = Span(now_s)
                    self.held[node] = Machine(node=node, token=str(request), since_s=now_s, usd_per_hour=usd)
            case NodesReady(nodes=nodes):
                self.held |= {node: replace(self.held[node], ready_s=now_s) for node in nodes}
            case NodeNoticed(node=node, until_s=until_s):
                self.held[node] = replace(self.held[node], until_s=until_s)
            case NodeLost(node=node):
                assert self.spans[node].end_s is None
                self.spans[node].end_s = now_s
                del self.held[node]
                self.gone.add(node)
            case NodesRefused(request=request, count=count):
                assert event.reason
                self.refused[request] = self.refused.get(request, 0) + count

    @rule(number=st.integers(1, 8), count=st.integers(1, 6))
    def request(self, number: int, count: int) -> None:
        """One that was made already asks once more for the same."""
        self.asked.setdefault(number, count)
        for watcher, here in ((self.watcher, self.watched), (self.lazy, self.unwatched)):
            here.provider.request(watcher.expect(number), self.asked[number])
        self.look()

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """Some that are alive, some that are gone, some that never were."""
        nodes = data.draw(st.sets(st.sampled_from([*self.spans, NodeId("never-was")])))
        for watcher in (self.watcher, self.lazy):
            watcher.release(nodes)
        for node in nodes:
            self.held.pop(node, None)
        self.gone |= nodes
        for here in (self.watched, self.unwatched):
            here.provider.release(nodes)
        for node in nodes & self.spans.keys():
            if self.spans[node].end_s is None:
                self.spans[node].end_s = self.watched.clock.now_s

    @rule(seconds=st.sampled_from([0.0, 1.0, 25.0, 100.0, 1_000.0]))
    def wait(self, seconds: float) -> None:
        end_s = self.watched.clock.now_s + seconds
        while (change_s := self.watched.provider.next_change_s()) is not None and change_s <= end_s:
            self.wait_for_news(change_s)
        self.watched.clock.now_s = self.unwatched.clock.now_s = end_s
        assert self.watcher.observe(self.watched.provider.survey()) == ()

    def wait_for_news(self, change_s: float) -> None:
        before = self.look()
        assert change_s > before.at_s
        between = self.watched.at((before.at_s + change_s) / 2.0).survey()
        assert replace(between, at_s=before.at_s) == before
        self.watched.clock.now_s = change_s
        after = self.look()
        assert (after.machines, after.requests) != (before.machines, before.requests)

    @rule()
    def look_at_the_unwatched(self) -> None:
        """Losses are reported late here; everything else is as with a survey at every instant."""
        survey = self.unwatched.provider.survey()
        assert survey == self.watched.provider.survey()
        self.lazy.observe(survey)
        assert self.lazy.belief == self.watcher.belief

    @rule()
    def crash(self) -> None:
        """The new driver knows no more than the journal."""
        self.watcher = Watcher(
            Belief(
                machines=tuple(self.held.values()),
                requests=frozenset(self.asked),
                refused=self.refused,
                gone=frozenset(self.gone),
            )
        )

    @invariant()
    def events_tell_all_there_is(self) -> None:
        survey = self.watched.provider.survey()
        assert self.watcher.belief.machines == tuple(self.held.values()) == survey.machines
        assert self.watched.provider.live() == tuple(machine.node for machine in survey.machines)
        assert len(survey.machines) <= self.most
        for status in survey.requests:
            assert status.asked == self.asked[int(status.token)] == len(status.granted) + status.refused
            assert status.refused == self.refused.get(int(status.token), 0)

    @invariant()
    def the_bill_is_what_a_bookkeeper_finds(self) -> None:
        now_s = self.watched.clock.now_s
        expected = sum(span.usd(self.terms, now_s) for span in self.spans.values())
        assert self.watched.provider.bill_usd(now_s) == pytest.approx(expected)
        assert self.unwatched.provider.bill_usd(now_s) == pytest.approx(expected)


TestWorld = World.TestCase
TestWorld.settings = settings(examples(60, explore=150), stateful_step_count=30)
