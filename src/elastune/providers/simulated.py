"""A simulated cloud: nodes queue, boot, straggle, are noticed and vanish, on a clock that is passed in.

It catches up with the clock at every call; what happens does not depend on how often it is called. A new
driver that calls `survey` finds what the old one left behind. Its meter shares no code with planner or
ledger: it is the bill that they are checked against.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from elastune.errors import InvariantError, JobError
from elastune.model.cluster import SECONDS_PER_HOUR, Billing, ClusterTerms
from elastune.model.ids import NodeId
from elastune.providers.protocol import Machine, Price, RequestStatus, Survey, check_request
from elastune.providers.simulated_faults import Luck, NodeFaults


class SimulatedMeter:
    """Counts every node from the start of its INIT until it is released or lost."""

    def __init__(self, terms: ClusterTerms) -> None:
        self._terms = terms
        self._start_s: dict[NodeId, float] = {}
        self._stop_s: dict[NodeId, float] = {}
        self._usd_per_hour: dict[NodeId, float] = {}

    def start(self, node: NodeId, at_s: float, usd_per_hour: float | None = None) -> None:
        self._start_s[node] = at_s
        if usd_per_hour is not None:
            self._usd_per_hour[node] = usd_per_hour

    def stop(self, node: NodeId, at_s: float) -> None:
        self._stop_s[node] = at_s

    def billed_s(self, node: NodeId, at_s: float) -> float:
        """Without a minimum charge."""
        return self._stop_s.get(node, at_s) - self._start_s[node]

    def stopped_s(self, node: NodeId) -> float | None:
        return self._stop_s.get(node)

    def usd_per_hour(self, node: NodeId) -> float | None:
        """None: the usual price."""
        return self._usd_per_hour.get(node)

    def usd(self, at_s: float) -> float:
        """Owed at this instant. The minimum charge is owed as soon as a node is granted, however it ends.

        Under per-function billing machine time is free here: a provider of nodes does not see the use of
        slots. Data ingress is owed under both.
        """
        started = {node: start_s for node, start_s in self._start_s.items() if start_s <= at_s}
        ingress_usd = len(started) * self._terms.data_usd_per_node
        if self._terms.billing is Billing.FUNCTION:
            return ingress_usd
        usual = self._terms.price_per_hour
        usd = math.fsum(
            max(min(self._stop_s.get(node, at_s), at_s) - start_s, self._terms.minimum_charge_s)
            * self._usd_per_hour.get(node, usual)
            for node, start_s in started.items()
        )
        return usd / SECONDS_PER_HOUR + ingress_usd


_NO_FAULTS = NodeFaults()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """A request; `number` selects its random draws."""

    token: str
    count: int
    number: int


class SimulatedProvider:
    """Nodes are named n0, n1, ... in order of grant.

    `expires_s` is the time-to-live that real nodes carry against leaks: counted from the start of its INIT;
    then the node shuts itself down, which looks like a loss.
    """

    def __init__(
        self,
        terms: ClusterTerms,
        *,
        seed: int,
        clock: Callable[[], float],
        faults: NodeFaults = _NO_FAULTS,
        expires_s: float | None = None,
    ) -> None:
        if expires_s is not None and not expires_s > 0.0:
            raise JobError(f"nodes expire after {expires_s} s, expected more than 0, or none for never")
        self._terms = terms
        self._faults = faults
        self._expires_s = math.inf if expires_s is None else expires_s
        self._clock = clock
        self._now_s = clock()
        self._luck = Luck(terms, faults, seed=seed)
        self._meter = SimulatedMeter(terms)
        self._agenda: list[tuple[float, int, NodeId | None, Callable[[float], None]]] = []
        """Time, order of entry, the node concerned (the entry is void once that is gone), what happens."""
        self._entries = itertools.count()
        self._orders: dict[str, _Order] = {}
        self._requests: dict[str, RequestStatus] = {}
        self._live: dict[NodeId, Machine] = {}
        self._slowdowns: dict[NodeId, float] = {}
        self._unseen = False

    def request(self, token: str, count: int) -> None:
        now_s = self._catch_up()
        order = self._orders.get(token)
        check_request(token, count, None if order is None else order.count)
        if order is None:
            new = self._orders[token] = _Order(token=token, count=count, number=len(self._orders))
            self._enter(now_s + self._luck.queue_s(new.number), None, lambda at_s: self._answer(new, at_s))

    def survey(self) -> Survey:
        now_s = self._catch_up()
        self._unseen = False
        return Survey(
            at_s=now_s, machines=tuple(self._live.values()), requests=tuple(self._requests.values())
        )

    def release(self, nodes: Collection[NodeId]) -> None:
        now_s = self._catch_up()
        for node in nodes:
            if node in self._live:
                self._end(node, now_s)

    def price(self) -> Price:
        return Price.of(self._terms)

    def live(self) -> tuple[NodeId, ...]:
        self._catch_up()
        return tuple(self._live)

    def slowdown(self, node: NodeId) -> float:
        """How many times as long everything takes on this node."""
        return self._slowdowns.get(node, 1.0)

    def usd_per_hour(self, node: NodeId) -> float | None:
        """Its price, also of a node that is gone; None: the usual one."""
        return self._meter.usd_per_hour(node)

    def billed_s(self, node: NodeId) -> float:
        return self._meter.billed_s(node, self._catch_up())

    def ended_s(self, node: NodeId) -> float | None:
        """When the node was released or lost."""
        self._catch_up()
        return self._meter.stopped_s(node)

    def bill_usd(self, at_s: float) -> float:
        """Owed at an instant that is not in the future."""
        if at_s > self._catch_up():
            raise InvariantError(f"the bill at {at_s} s is not known at {self._now_s} s")
        return self._meter.usd(at_s)

    def next_change_s(self) -> float | None:
        """When a survey next shows a change, other than own releases; now, if the last one is outdated."""
        now_s = self._catch_up()
        if self._unseen:
            return now_s
        while self._agenda and self._is_void(self._agenda[0][2]):
            heapq.heappop(self._agenda)
        return self._agenda[0][0] if self._agenda else None

    def _enter(self, at_s: float, node: NodeId | None, happen: Callable[[float], None]) -> None:
        if at_s < math.inf:
            heapq.heappush(self._agenda, (at_s, next(self._entries), node, happen))

    def _is_void(self, node: NodeId | None) -> bool:
        return node is not None and node not in self._live

    def _catch_up(self) -> float:
        now_s = self._clock()
        if now_s < self._now_s:
            raise InvariantError(f"the clock went back from {self._now_s} s to {now_s} s")
        while self._agenda and self._agenda[0][0] <= now_s:
            at_s, _, node, happen = heapq.heappop(self._agenda)
            if not self._is_void(node):
                self._unseen = True
                happen(at_s)
        self._now_s = now_s
        return now_s

    def _answer(self, order: _Order, at_s: float) -> None:
        count, reason = min(self._ceilings(order), key=lambda ceiling: ceiling[0])
        nodes = tuple(self._start(order.token, at_s) for _ in range(count))
        self._requests[order.token] = RequestStatus(
            token=order.token,
            asked=order.count,
            granted=nodes,
            refused=order.count - count,
            reason=reason,
            prices={node: usd for node in nodes if (usd := self._meter.usd_per_hour(node)) is not None},
        )

    def limit_nodes(self, most: int) -> None:
        self._terms = replace(self._terms, max_nodes=most)

    def _ceilings(self, order: _Order) -> list[tuple[int, str]]:
        """How many nodes each limit allows, and the limit's name. The first of the lowest decides."""
        live, capacity, most = len(self._live), self._faults.capacity, self._terms.max_nodes
        ceilings = [(order.count, ""), (most - live, f"at most {most} nodes")]
        if capacity is not None:
            ceilings.append((capacity - live, f"the provider has no more than {capacity} nodes"))
        ceilings.append((self._luck.granted(order.number, order.count), "the provider is short of nodes now"))
        return ceilings

    def _start(self, token: str, at_s: float) -> NodeId:
        number = len(self._slowdowns)
        node = NodeId(f"n{number}")
        self._slowdowns[node] = self._luck.slowdown(number)
        usd_per_hour = self._luck.usd_per_hour(number)
        self._live[node] = Machine(node=node, token=token, since_s=at_s, usd_per_hour=usd_per_hour)
        self._meter.start(node, at_s, usd_per_hour)
        notice_s = at_s + self._luck.noticed_after_s(number)
        until_s = notice_s + self._faults.notice_s
        loss_s = at_s + min(self._luck.lost_after_s(number), self._expires_s)
        self._enter(at_s + self._luck.boot_s(number), node, lambda at_s: self._change(node, ready_s=at_s))
        self._enter(notice_s, node, lambda _: self._change(node, until_s=until_s))
        self._enter(min(loss_s, until_s), node, lambda at_s: self._end(node, at_s))
        return node

    def _change(self, node: NodeId, **times: float) -> None:
        self._live[node] = replace(self._live[node], **times)  # type: ignore[arg-type]

    def _end(self, node: NodeId, at_s: float) -> None:
        del self._live[node]
        self._meter.stop(node, at_s)
