"""The broker as the simulated body wants its provider: in virtual time, with a new broker per driver."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from random import Random

from elastune.model.cluster import ClusterTerms
from elastune.model.ids import NodeId
from elastune.providers.ec2.broker import Broker, CallPurpose
from elastune.providers.ec2.calls import Ec2Calls, Offering
from elastune.providers.ec2.fleet import LEASE_S, Clocks
from elastune.providers.protocol import Price, Survey
from tests.clouds.virtual import VirtualEc2

EPOCH = 1_800_000_000.0


class Brokered:
    """`clock` counts from 0 and goes on while the driver is down."""

    def __init__(
        self,
        terms: ClusterTerms,
        world: VirtualEc2,
        cloud: Ec2Calls,
        offerings: Sequence[Offering],
        *,
        clock: Callable[[], float],
        run: str,
    ) -> None:
        self.terms = terms
        self.world = world
        self.cloud = cloud
        self.offerings = offerings
        self.clock = clock
        self.run = run
        self.luck = Random(f"broker {run}")
        self.lease: Callable[[], float | None] = lambda: math.inf
        self.is_over: Callable[[], bool] = lambda: False
        self._seen_s = self._died_s = 0.0
        self.broker = self._hire()
        self._due = -math.inf

    def take_over(self) -> None:
        """A new driver, which knows nothing but when the last one wrote."""
        self._died_s = self._seen_s
        self.broker = self._hire(self.clock() - self._died_s)
        self._due = -math.inf

    def _hire(self, down_s: float | None = None) -> Broker:
        return Broker(
            self.cloud,
            CallPurpose(
                run=self.run,
                job="fire",
                offerings=self.offerings,
                max_nodes=self.terms.max_nodes,
                usd_per_hour=self.terms.price_per_hour,
                user_data=lambda expires: f"#!/bin/bash\n# until {expires:.0f}\n",
            ),
            clocks=Clocks(wall=lambda: self.clock() + EPOCH, run=self.clock),
            lease=lambda: self.lease(),  # noqa: PLW0108  it is set later
            luck=self.luck,
            down_s=down_s,
        )

    def request(self, token: str, count: int) -> None:
        self.broker.request(token, count)
        self._due = -math.inf

    def release(self, nodes: Collection[NodeId]) -> None:
        self.broker.release(nodes)
        self._due = -math.inf

    def survey(self) -> Survey:
        if self.clock() + EPOCH >= self._due:
            self._due = self.broker.work()
        self._seen_s = self.clock()
        assert self.broker.broken is None, self.broker.broken
        for id_ in self.world.joined():
            self.broker.join(id_)
        self.broker.notice(self.world.notices())
        return self.broker.survey()

    def price(self) -> Price:
        raise NotImplementedError

    # What the simulated body asks beside.

    def next_change_s(self) -> float | None:
        if self.is_over() and not self.broker.fleet.alive() and self.broker.is_settled:
            return None
        return max(self.clock(), self._due - EPOCH)

    def slowdown(self, node: NodeId) -> float:
        return 1.0

    def usd_per_hour(self, node: NodeId) -> float | None:
        return self.broker.fleet.prices([node]).get(node) if self.broker.fleet.get(node) else None

    def billed_s(self, node: NodeId) -> float:
        """As a driver that comes back reckons it: who is not even listed any more lived as long as may be."""
        known = self.broker.fleet.billed_s(node)
        if known is not None:
            return known
        until_s = min(self.clock(), self._died_s + LEASE_S + self.terms.shutdown_s)
        box = self.world.boxes.get(node)
        return 0.0 if box is None else until_s + EPOCH - box.launched

    def ended_s(self, node: NodeId) -> float | None:
        box = self.world.boxes.get(node)
        ended = -math.inf if box is None else box.ended - EPOCH  # one that was only presumed
        return ended if ended <= self.clock() else None
