"""Decides what to ask of EC2 next. No thread, no boto3, no clock of its own: `work` makes one round of calls.

Safe whatever happens between any two calls:

- A launch is known by its client token, made of run, request and position in the list of offerings. A call
  without an answer is repeated with the same token, and launches nothing twice.
- An instance has run, request and expiry as tags from its launch on. So a new driver finds it, and without
  one it ends itself at its expiry, which a living driver extends (`Leases`).
- Listings lag behind (`InstanceFleet`).
- An instance that cannot be ended goes on costing money, so it is listed again as a machine of the run;
  meanwhile nothing is launched and no expiry is extended.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from elastune.model.ids import NodeId
from elastune.providers.ec2 import calls as ec2
from elastune.providers.ec2.calls import CloudError, Ec2Calls, Launch, Market, Offering
from elastune.providers.ec2.fleet import LAG_S, LEASE_S, RETRY_S, SHUTDOWN_S, Clocks, InstanceFleet, Leases
from elastune.providers.ec2.offerings import LaunchOrder
from elastune.providers.protocol import RequestStatus, Survey, check_request

_LEAST_LEASE_S = ec2.BILLING.least_life_s / 2
"""An instance is not launched with a shorter lease."""
_MOST_CHARACTERS = 256
_NO_CAPACITY = ("Server.Insufficient", "Server.SpotInstance", "Server.InternalError")
"""Reasons of an instance that EC2 accepted and then could not start begin with these."""
_SHUN_S = 300.0
_REMEMBERED_S = 3000.0
"""EC2 lists what has ended for about an hour."""
SETTLE_S = 30.0
"""After a restart, wait until the previous driver's launches are listed."""
BUSY_LOOK_S = 3.0
_QUIET_LOOK_S = 15.0
_ERROR_LOOK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPurpose:
    """The run, for the tags of its instances; the offerings, and the user data."""

    run: str
    offerings: Sequence[Offering]
    max_nodes: int
    usd_per_hour: float
    """The expected price of a node."""
    user_data: Callable[[float], str]
    """From an expiry."""
    job: str = ""
    owner: str = ""

    def tags(self, order: LaunchOrder, offering: Offering, expiry: float) -> dict[str, str]:
        tags = {
            ec2.RUN: self.run,
            ec2.REQUEST: order.token,
            ec2.ASKED: str(order.asked),
            ec2.JOB: self.job,
            ec2.OWNER: self.owner,
            ec2.PRICE: repr(offering.usd_per_hour),
            ec2.EXPIRY: str(int(expiry)),
        }
        return {key: _as_tag(value) for key, value in tags.items() if value}


def _as_tag(value: str) -> str:
    """EC2 allows only these characters in the value of a tag."""
    return re.sub(r"[^\w +=.:/@-]", "_", value)[:_MOST_CHARACTERS]


class Broker:
    """`lease` returns until when, by the run's clock, instances may live without a driver; None: not known
    yet, so nothing is launched and no expiry is changed."""

    def __init__(
        self,
        cloud: Ec2Calls,
        purpose: CallPurpose,
        *,
        clocks: Clocks,
        lease: Callable[[], float | None],
        luck: Random,
        down_s: float | None = None,
    ) -> None:
        """`down_s`: how long ago the previous driver went down; None: this is the first."""
        self._cloud = cloud
        self._purpose = purpose
        self._clocks = clocks
        self._luck = luck
        self._orders: dict[str, LaunchOrder] = {}
        self._launches_after = clocks.wall() + SETTLE_S if down_s is not None else -math.inf
        self._is_forgotten = down_s is not None and down_s > _REMEMBERED_S
        self._look_due = -math.inf
        self._end_due = -math.inf
        self._closing = False
        self._trouble: str | None = None
        self._shunned: dict[tuple[str, Market], float] = {}
        """Offerings without capacity, and until when they are not tried again."""
        self._unstarted: set[str] = set()
        """Instances that were counted in `_shunned`."""
        self.fleet = InstanceFleet(clocks, purpose.usd_per_hour)
        self.leases = Leases(cloud, self.fleet, clocks, lease)
        self._broken: str | None = None

    @property
    def broken(self) -> str | None:
        """Why no instance can ever be launched, or get a longer lease."""
        return self._broken or self.leases.broken

    @property
    def trouble(self) -> str | None:
        """The error of the last round, which is tried again."""
        return self._trouble or self.leases.trouble

    # The run's calls.

    def request(self, token: str, count: int) -> None:
        order = self._orders.get(token)
        if order is not None:
            check_request(token, count, order.asked)
            return
        order = self._orders[token] = LaunchOrder(token, count)
        for id_ in self.fleet.by_token().get(token, ()):
            order.grant(id_)
        if self._is_forgotten and not order.granted:  # EC2 no longer lists the previous driver's instances
            self._presume_gone(order)
        open_ = sum(each.left for each in self._orders.values() if each is not order)
        room = self._purpose.max_nodes - len(self.fleet.machines()) - open_
        if order.left > room:
            order.refuse(order.left - max(0, room), f"at most {self._purpose.max_nodes} nodes")
        if self.broken is not None:
            order.refuse(order.left, self.broken)

    def limit_nodes(self, most: int) -> None:
        self._purpose = replace(self._purpose, max_nodes=most)

    def release(self, nodes: Collection[NodeId]) -> None:
        if self.fleet.release(nodes):
            self._end_due = -math.inf

    def survey(self) -> Survey:
        orders = [order for order in self._orders.values() if order.granted or order.refused]
        others = {token: ids for token, ids in self.fleet.by_token().items() if token not in self._orders}
        orders += [LaunchOrder(token, len(ids), granted=ids) for token, ids in others.items()]
        requests, machines = tuple(map(self._request_status, orders)), tuple(self.fleet.machines())
        return Survey(at_s=self._clocks.run(), machines=machines, requests=requests)

    def _request_status(self, order: LaunchOrder) -> RequestStatus:
        return RequestStatus(
            token=order.token,
            asked=order.asked,
            granted=tuple(map(NodeId, order.granted)),
            refused=order.refused,
            reason=order.reason if order.refused else "",
            prices=self.fleet.prices(order.granted),
        )

    @property
    def is_settled(self) -> bool:
        """Whether every request is answered and EC2 has accepted the end of every released instance."""
        return not any(order.left for order in self._orders.values()) and not self.fleet.to_end()

    def wind_up(self) -> None:
        """Release everything, launch nothing new, wait for the result of calls without an answer."""
        self._closing = True
        self.release([NodeId(id_) for id_ in self.fleet])
        for order in self._orders.values():
            if order.under_way is None:
                order.refuse(order.left, "the run is over")
            else:  # a repetition might launch instances: wait whether the listing shows some
                order.under_way = None
                order.awaited_until = self._clocks.wall() + LAG_S
        self._end_due = -math.inf

    def specimen(self) -> Launch:
        """A typical launch, for a dry run before anything is paid for."""
        token, expiry = f"elastune-{self._purpose.run}-check", self._clocks.wall() + LEASE_S
        return self._launch(token, LaunchOrder("0", 1), self._purpose.offerings[0], expiry)

    def _launch(self, token: str, order: LaunchOrder, offering: Offering, expiry: float) -> Launch:
        return Launch(
            client_token=token,
            count=order.left,
            offering=offering,
            tags=self._purpose.tags(order, offering, expiry),
            user_data=self._purpose.user_data(expiry),
        )

    # A round of calls.

    def work(self) -> float:
        """Make all calls that are due; returns when the next is, by the wall clock."""
        self._trouble = None
        self._look()
        self.leases.renew()
        self._end()
        for order in tuple(self._orders.values()):
            while self._is_due(order):
                self._try(order)
        dues = [self._look_due, self.leases.due]
        dues += [max(order.due, self._launches_after) for order in self._orders.values() if order.left]
        dues += [self._end_due] if self.fleet.to_end() else []
        return max(self._clocks.wall() + 0.05, min(dues))

    def look_afresh(self) -> None:
        """List now. Raises `CloudError`."""
        now = self._clocks.wall()
        new = self.fleet.take_in(self._cloud.instances(self._purpose.run), now)
        self.leases.meet(new)
        for id_ in new:
            order = self._orders.get(self.fleet[id_].machine.token)
            if order is not None:
                order.grant(id_)  # even one too many: the run then releases it
        if self._closing:
            self.release([NodeId(id_) for id_ in new])
        self._shun_unstarted(now)
        booting = any(machine.ready_s is None for machine in self.fleet.machines())
        self._look_due = now + (BUSY_LOOK_S if booting or not self.is_settled else _QUIET_LOOK_S)

    def _shun_unstarted(self, now: float) -> None:
        """EC2 may accept a launch and then lack the capacity to run its instances."""
        for id_ in self.fleet.failed_starts():
            instance = self.fleet[id_].instance
            if instance.reason.startswith(_NO_CAPACITY) and id_ not in self._unstarted:
                self._unstarted.add(id_)
                self._shunned[instance.instance_type, instance.market] = now + _SHUN_S

    def _look(self) -> None:
        if self._clocks.wall() < self._look_due:
            return
        try:
            self.look_afresh()
        except CloudError as error:
            self._trouble = str(error)
            self._look_due = self._clocks.wall() + _ERROR_LOOK_S

    # Launches.

    def _is_due(self, order: LaunchOrder) -> bool:
        now = self._clocks.wall()
        ready = now >= order.due and now >= self._launches_after
        return order.left > 0 and ready and self.leases.expiry() is not None

    def _try(self, order: LaunchOrder) -> None:
        now = self._clocks.wall()
        if order.awaited_until is not None:
            if now < order.awaited_until:
                order.due = min(order.awaited_until, now + BUSY_LOOK_S)
                self._look_due = min(self._look_due, order.due)
                return
            self._presume_gone(order)
            order.advance()
            if not order.left:
                return
        launch = order.under_way if self._still_holds(order.under_way) else self._draft(order)
        if launch is None:
            return
        if self.fleet.to_end() or not self.leases.renew():
            order.wait(now, self._luck.random())
            return
        began_s = self._clocks.run()
        order.under_way = launch
        try:
            instances = self._cloud.launch(launch)
        except CloudError as error:
            self._failed(order, error)
            return
        for instance in instances:
            self.fleet.adopt(instance, began_s=began_s)
            order.grant(instance.id)
        self._look_due = min(self._look_due, self._clocks.wall() + BUSY_LOOK_S)
        order.advance(f"only {len(instances)} of {launch.offering}" if order.left else "")

    def _still_holds(self, launch: Launch | None) -> bool:
        """Whether a call can be repeated unchanged. If not, EC2's answer shows whether it was executed."""
        if launch is None:
            return False
        expires, most = float(launch.tags[ec2.EXPIRY]), self.leases.expiry()
        lasts = expires - self._clocks.wall() >= _LEAST_LEASE_S
        return lasts and most is not None and expires <= most + 1.0

    def _draft(self, order: LaunchOrder) -> Launch | None:
        """The next call, if there is an offering left and the budget lasts for it."""
        offerings, expiry = self._purpose.offerings, self.leases.expiry()
        while (offering := order.offering(offerings)) is not None and self._is_shunned(offering):
            order.advance(f"{offering}: had none a moment ago")
        if self._closing or offering is None:
            order.refuse(order.left, "the run is over" if self._closing else "nothing else to try")
            return None
        if expiry is None or expiry - self._clocks.wall() < _LEAST_LEASE_S:
            order.refuse(order.left, "what the budget has left would not last until they are up")
            return None
        return self._launch(self._client_token(order), order, offering, expiry)

    def _is_shunned(self, offering: Offering) -> bool:
        until = self._shunned.get((offering.instance_type, offering.market), -math.inf)
        return self._clocks.wall() < until

    def _failed(self, order: LaunchOrder, error: CloudError) -> None:
        now = self._clocks.wall()
        match error:
            case ec2.NoCapacityError():
                order.advance(f"{order.offering(self._purpose.offerings)}: {error}")
            case ec2.AlreadyLaunchedError():
                order.under_way = None
                order.awaited_until = now + LAG_S
            case ec2.RefusedError():
                self._broken = str(error)
                order.under_way = None
                order.refuse(order.left, str(error))
            case _:  # try again: too many calls, or no answer (then with the same token)
                order.wait(now, self._luck.random())
                self._trouble = str(error)

    def _presume_gone(self, order: LaunchOrder) -> None:
        """EC2 knows the client token and lists no instance: they ended while no driver was running.

        They are reported as nodes that came and went, and billed for as long as they may have lived, at the
        highest price: some may have come from another offering.
        """
        now, expiry, token = self._clocks.wall(), self.leases.expiry(), self._client_token(order)
        life_s = LEASE_S if expiry is None else max(0.0, expiry - now)
        if self._closing or order.offering(self._purpose.offerings) is None:
            return
        if any(self.fleet[id_].instance.client_token == token for id_ in self.fleet):
            return  # a part of it is known, and there was no more
        offering = max(self._purpose.offerings, key=lambda each: each.usd_per_hour)
        for number in range(order.left):
            gone = ec2.Instance(
                id=f"{token}-{number}",
                phase=ec2.InstancePhase.ENDED,
                launched=now - life_s - SHUTDOWN_S,
                instance_type=offering.instance_type,
                market=offering.market,
                tags=self._purpose.tags(order, offering, now),
            )
            self.fleet.adopt(gone)
            self.fleet.has_ended([gone.id])
            order.grant(gone.id)

    def _client_token(self, order: LaunchOrder) -> str:
        return f"elastune-{self._purpose.run}-{order.token}-{order.position}"

    # Endings.

    def _end(self) -> None:
        now, ending = self._clocks.wall(), self.fleet.to_end()
        if not ending or now < self._end_due:
            return
        self._end_due = now + RETRY_S
        try:
            self._cloud.terminate(ending)
        except ec2.RefusedError as error:
            self._broken = str(error)
        except CloudError as error:
            self._trouble = str(error)
        else:
            self.fleet.has_ended(ending)

    def terminate_all(self) -> tuple[str, ...]:
        """One call to end all, without a check. Returns the instances of the call."""
        left = self.fleet.alive()
        if left:
            self._cloud.terminate(left)
        return left

    # News of single nodes.

    def join(self, node: str, at_s: float | None = None) -> None:
        """Its Ray node is up."""
        self.fleet.join(node, self._clocks.run() if at_s is None else at_s)

    def notice(self, until: Mapping[str, float]) -> None:
        """These will be taken away at that time, by the wall clock."""
        for node, at in until.items():
            self.fleet.notice(node, at)
