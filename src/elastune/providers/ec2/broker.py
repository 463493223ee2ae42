"""What to ask of EC2 next. No thread, no boto3, no clock of its own: `work` makes one round of calls.

Safe whatever happens between any two calls:

- A launch is known by its client token, made of run, request and position in the list of wares. A call that
  got no answer is repeated with the same token, and launches nothing twice.
- An instance carries run, request and expiry from its first moment on. So a new driver finds it, and nobody
  has to: it ends itself unless a living driver puts its expiry off.
- No expiry lies beyond what the budget pays for. Before more instances are launched, those that are there
  get the shorter expiry that follows from it.
- Listings lag behind. What a launch has answered is believed before the listing shows it, and an instance
  that was ended is ended again if it is still listed a minute later.
- An instance that cannot be ended goes on costing money, so it is told as one that nobody holds, time and
  again; meanwhile nothing is launched and no expiry is put off.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from elastune.errors import InvariantError
from elastune.place import NodeId
from elastune.providers.ec2 import cloud as ec2
from elastune.providers.ec2.cloud import Cloud, CloudError, Instance, Launch, Phase, Ware
from elastune.providers.ec2.orders import Order
from elastune.providers.prices import BILLING_RULES
from elastune.providers.protocol import Fate, Machine, Survey

LEASE_S = 600.0
"""So long instances live without a driver, if the budget lasts."""
PARTING_S = BILLING_RULES["ec2"].parting_s
_LEAST_LEASE_S = BILLING_RULES["ec2"].least_life_s / 2
"""An instance is not launched with less than this, whatever happened since it was asked for."""
_RENEW_SHARE = 2 / 3
"""A lease is renewed when less than this share of it is left."""
_LAG_S = 60.0
"""For so long a listing may not show what is there; later what it does not show is gone."""
SETTLE_S = 30.0
"""A driver that takes over waits so long before it launches: what the last one did must be seen first."""
_TOLD_AGAIN_S = 5.0
"""A released instance that EC2 was not heard to end is told again after so long."""
_BUSY_LOOK_S = 3.0
_QUIET_LOOK_S = 15.0
_ERROR_LOOK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """Whom instances are for, as their tags say."""

    run: str
    job: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """`wall` counts seconds since 1970, as EC2 does; `run` is the clock of the run."""

    wall: Callable[[], float]
    run: Callable[[], float]

    def to_run(self, wall: float) -> float:
        return self.run() - (self.wall() - wall)


@dataclass(slots=True)
class _Known:
    """An instance of this run."""

    instance: Instance
    machine: Machine
    answered: float | None
    """When its launch was answered, if by us; wall clock."""
    listed: float | None = None
    """When a listing showed it last."""
    released: float | None = None
    """When it was, the last time."""
    ended: float | None = None
    expires: float = math.inf
    """As EC2 was told last."""


class Broker:
    """`lease` tells until when, by the run's clock, instances may live if nobody watches them; None: that is
    not known yet, so nothing is launched and no expiry is changed."""

    def __init__(  # noqa: PLR0913  all by name
        self,
        cloud: Cloud,
        purpose: Purpose,
        *,
        wares: Sequence[Ware],
        max_nodes: int,
        usd_per_hour: float,
        clocks: Clocks,
        lease: Callable[[], float | None],
        user_data: Callable[[float], str],
        luck: Random,
        takes_over: bool = False,
    ) -> None:
        self._cloud = cloud
        self._purpose = purpose
        self._wares = tuple(wares)
        self._max_nodes = max_nodes
        self._usd_per_hour = usd_per_hour
        self._clocks = clocks
        self._lease = lease
        self._user_data = user_data
        self._luck = luck
        self._orders: dict[str, Order] = {}
        self._known: dict[str, _Known] = {}
        self._launches_after = clocks.wall() + SETTLE_S if takes_over else -math.inf
        self._look_due = -math.inf
        self._lease_due = -math.inf
        self._end_due = -math.inf
        self._closing = False
        self._listed_alive: frozenset[str] = frozenset()
        self.broken: str | None = None
        """Why no instance will ever come."""
        self.trouble: str | None = None
        """What went wrong last, if it still does."""

    @staticmethod
    def is_hopeless(error: CloudError) -> bool:
        """Whether trying again would be in vain."""
        return isinstance(error, ec2.RefusedError)

    # What the run wants.

    def request(self, token: str, count: int) -> None:
        order = self._orders.get(token)
        if order is not None and order.asked != count:
            raise InvariantError(
                f"request {token!r} asked for {order.asked} nodes and now for {count}: "
                "a token stands for one request, take a new one"
            )
        if order is not None:
            return
        order = self._orders[token] = Order(token, count)
        for id_, known in self._known.items():
            if known.machine.token == token:
                order.grant(id_)
        room = self._max_nodes - self._held() + order.left
        if order.left > room:
            order.refuse(order.left - max(0, room), f"at most {self._max_nodes} nodes")
        if self.broken is not None:
            order.refuse(order.left, self.broken)

    def release(self, nodes: Collection[NodeId]) -> None:
        now = self._clocks.wall()
        for node in nodes:
            known = self._known.get(node)
            if known is not None and known.ended is None:
                self._end_due = -math.inf if known.released is None else self._end_due
                known.released = now

    def join(self, node: str, at_s: float | None = None) -> None:
        """Its Ray node is there."""
        known = self._known.get(node)
        if known is not None and known.machine.ready_s is None:
            now_s = self._clocks.run() if at_s is None else at_s
            known.machine = replace(known.machine, ready_s=max(now_s, known.machine.since_s))

    def notice(self, until: Mapping[str, float]) -> None:
        """These will be taken away at that time, by the wall clock."""
        for node, at in until.items():
            known = self._known.get(node)
            if known is not None and known.machine.until_s is None:
                known.machine = replace(known.machine, until_s=self._clocks.to_run(at))

    def survey(self) -> Survey:
        machines = [known.machine for known in self._known.values() if self._is_there(known)]
        return Survey(
            at_s=self._clocks.run(),
            machines=tuple(sorted(machines, key=lambda machine: machine.since_s)),
            fates=tuple(self._fates()),
        )

    def billed_s(self, node: str) -> float | None:
        """For how long it has been billed or was; None: nobody knows it."""
        known = self._known.get(node)
        if known is None:
            return None
        until = self._clocks.wall() if known.ended is None else known.ended
        return max(0.0, until - known.instance.launched)

    def usd_per_hour(self, node: str) -> float | None:
        """None: what all nodes cost."""
        known = self._known.get(node)
        return None if known is None else known.machine.usd_per_hour

    def alive(self) -> tuple[str, ...]:
        """All that may still cost money: not known to have ended, or listed as if it had not."""
        return tuple(
            id_ for id_, known in self._known.items() if known.ended is None or id_ in self._listed_alive
        )

    @property
    def is_settled(self) -> bool:
        """Whether every request is answered and every released instance is seen to be ending."""
        return not any(order.left for order in self._orders.values()) and not self._to_end()

    def wind_up(self) -> None:
        """Everything goes, nothing new is launched; what came of calls without an answer is waited for."""
        self._closing = True
        self.release([NodeId(id_) for id_ in self._known])
        for order in self._orders.values():
            if order.under_way is None:
                order.refuse(order.left, "the run is over")
            else:  # asking again might launch what nobody wants: see whether the listing shows something
                order.under_way = None
                order.awaited_until = self._clocks.wall() + _LAG_S
        self._end_due = -math.inf

    # A round of calls.

    def work(self) -> float:
        """Do all that is due; returns when the next thing is, by the wall clock."""
        self.trouble = None
        self._look()
        self._put_off()
        self._end()
        for order in tuple(self._orders.values()):
            while self._is_due(order):
                self._try(order)
        return self._next_due()

    def look_afresh(self) -> None:
        """List now, whatever was listed before. Raises `CloudError`."""
        now = self._clocks.wall()
        self._take_in(self._cloud.instances(self._purpose.run), now)
        self._look_due = now + (_BUSY_LOOK_S if self._is_busy() else _QUIET_LOOK_S)

    def _next_due(self) -> float:
        dues = [self._look_due, self._lease_due]
        dues += [max(order.due, self._launches_after) for order in self._orders.values() if order.left]
        dues += [self._end_due] if self._to_end() else []
        return max(self._clocks.wall() + 0.05, min(dues))

    def _is_busy(self) -> bool:
        booting = any(
            known.machine.ready_s is None for known in self._known.values() if self._is_there(known)
        )
        return booting or not self.is_settled

    def _look(self) -> None:
        if self._clocks.wall() < self._look_due:
            return
        try:
            self.look_afresh()
        except CloudError as error:
            self._note(error)
            self._look_due = self._clocks.wall() + _ERROR_LOOK_S

    def _take_in(self, instances: Sequence[Instance], asked: float) -> None:
        for instance in instances:
            known = self._known.get(instance.id)
            if known is None:
                known = self._adopt(instance, answered=None)
            known.listed = asked
            if instance.phase in {Phase.ENDING, Phase.ENDED}:
                self._has_ended(known, instance)
            elif known.ended is None:
                known.instance = instance
            elif asked - known.ended > _LAG_S:  # it did not end after all
                known.ended, known.released = None, asked
                self._end_due = -math.inf
        alive = (each.id for each in instances if each.phase in {Phase.PENDING, Phase.RUNNING})
        self._listed_alive = frozenset(alive)
        listed = {instance.id for instance in instances}
        for id_, known in self._known.items():
            since = known.listed if known.listed is not None else known.answered
            if id_ not in listed and known.ended is None and since is not None and asked - since > _LAG_S:
                self._has_ended(known, known.instance)

    def _adopt(self, instance: Instance, *, answered: float | None, began_s: float | None = None) -> _Known:
        """`began_s`: when its launch was asked for, by the run's clock, if by us."""
        token = instance.tags.get(ec2.REQUEST, "")
        since_s = min(self._clocks.run(), self._clocks.to_run(instance.launched))
        since_s = since_s if began_s is None else max(began_s, since_s)
        usd = instance.usd_per_hour
        known = self._known[instance.id] = _Known(
            instance=instance,
            machine=Machine(
                node=NodeId(instance.id),
                token=token,
                since_s=since_s,
                usd_per_hour=None if usd is None or usd == self._usd_per_hour else usd,
            ),
            answered=answered,
            expires=instance.expires or math.inf,
        )
        order = self._orders.get(token)
        if order is not None:
            order.grant(instance.id)  # be it one too many: who is told of it gives it back
        if self._closing:
            self.release([NodeId(instance.id)])
        return known

    def _has_ended(self, known: _Known, instance: Instance) -> None:
        if known.ended is None:
            known.ended = min(self._clocks.wall(), known.expires + PARTING_S)
            known.instance = instance

    # Leases.

    def _expiry(self) -> float | None:
        """Until when all may live from now on, by the wall clock."""
        until_s = self._lease()
        return None if until_s is None else self._clocks.wall() + min(LEASE_S, until_s - self._clocks.run())

    def _leased(self) -> list[str]:
        return [id_ for id_, known in self._known.items() if known.ended is None and known.released is None]

    def _put_off(self) -> bool:
        """Whether no lease is longer than it may be."""
        now, expiry, leased = self._clocks.wall(), self._expiry(), self._leased()
        self._lease_due = now + LEASE_S * (1 - _RENEW_SHARE) / 4
        if expiry is None or not leased:
            return True
        soonest = min(self._known[id_].expires for id_ in leased)
        latest = max(self._known[id_].expires for id_ in leased)
        if self._to_end():
            expiry = min(expiry, soonest)
        too_long = latest > expiry + 1.0
        short = soonest < now + _RENEW_SHARE * LEASE_S and expiry > soonest + 1.0
        if too_long or short:
            try:
                self._cloud.put_off(leased, expiry)
            except CloudError as error:
                self._note(error)
                self._lease_due = now + _ERROR_LOOK_S
                return not too_long
            for id_ in leased:
                self._known[id_].expires = expiry
        return True

    # Launches.

    def _is_due(self, order: Order) -> bool:
        now = self._clocks.wall()
        ready = now >= order.due and now >= self._launches_after
        return order.left > 0 and ready and self._lease() is not None

    def _try(self, order: Order) -> None:
        now = self._clocks.wall()
        if order.awaited_until is not None:
            if now < order.awaited_until:
                order.due = min(order.awaited_until, now + _BUSY_LOOK_S)
                self._look_due = min(self._look_due, order.due)
                return
            self._presume_gone(order)
            order.advance()
            if not order.left:
                return
        launch = order.under_way if self._still_holds(order.under_way) else self._draft(order)
        if launch is None:
            return
        if self._to_end() or not self._put_off():
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
            self._adopt(instance, answered=self._clocks.wall(), began_s=began_s)
            order.grant(instance.id)
        self._look_due = min(self._look_due, self._clocks.wall() + _BUSY_LOOK_S)
        order.advance(f"only {len(instances)} of {launch.ware}" if order.left else "")

    def _still_holds(self, launch: Launch | None) -> bool:
        """Whether a call can be repeated as it was. If not, and it was heard, EC2 says so of its token."""
        if launch is None:
            return False
        expires, most = float(launch.tags[ec2.EXPIRY]), self._expiry()
        lasts = expires - self._clocks.wall() >= _LEAST_LEASE_S
        return lasts and most is not None and expires <= most + 1.0

    def _draft(self, order: Order) -> Launch | None:
        """The next call, if there is anything left to try and the budget lasts for it."""
        ware, now = order.ware(self._wares), self._clocks.wall()
        if self._closing or ware is None:
            order.refuse(order.left, "the run is over" if self._closing else "nothing else to try")
            return None
        expiry = self._expiry()
        if expiry is None or expiry - now < _LEAST_LEASE_S:
            order.refuse(order.left, "what the budget has left would not last until they are up")
            return None
        tags = {
            ec2.RUN: self._purpose.run,
            ec2.REQUEST: order.token,
            ec2.ASKED: str(order.asked),
            ec2.JOB: self._purpose.job,
            ec2.OWNER: self._purpose.owner,
            ec2.PRICE: f"{ware.usd_per_hour:.6g}",
            ec2.EXPIRY: str(int(expiry)),
        }
        return Launch(
            client_token=self._client_token(order),
            count=order.left,
            ware=ware,
            tags={key: value for key, value in tags.items() if value},
            user_data=self._user_data(expiry),
        )

    def _presume_gone(self, order: Order) -> None:
        """EC2 says that somebody launched it, and shows nothing: they lived and died while nobody looked.

        They are told as nodes that came and went, and billed for as long as they may have lived.
        """
        ware, now = order.ware(self._wares), self._clocks.wall()
        if self._closing or ware is None:
            return
        for number in range(order.left):
            gone = Instance(
                id=f"{self._client_token(order)}-{number}",
                phase=Phase.ENDED,
                launched=now - LEASE_S - PARTING_S,
                instance_type=ware.instance_type,
                market=ware.market,
                tags={ec2.REQUEST: order.token, ec2.PRICE: f"{ware.usd_per_hour:.6g}"},
            )
            self._adopt(gone, answered=now).ended = now

    def _client_token(self, order: Order) -> str:
        return f"elastune-{self._purpose.run}-{order.token}-{order.position}"

    def _failed(self, order: Order, error: CloudError) -> None:
        now = self._clocks.wall()
        match error:
            case ec2.NoCapacityError():
                ware = order.ware(self._wares)
                order.advance(f"{ware}: {error}")
            case ec2.AlreadyLaunchedError():
                order.under_way = None
                order.awaited_until = now + _LAG_S
            case ec2.RefusedError():
                self.broken = str(error)
                order.under_way = None
                order.refuse(order.left, str(error))
            case _:  # try again: too many calls or, with the same words, no answer
                order.wait(now, self._luck.random())
                self._note(error)

    # Endings.

    def _to_end(self) -> list[str]:
        return [
            id_ for id_, known in self._known.items() if known.released is not None and known.ended is None
        ]

    def _end(self) -> None:
        now, ending = self._clocks.wall(), self._to_end()
        if not ending or now < self._end_due:
            return
        self._end_due = now + _TOLD_AGAIN_S
        try:
            self._cloud.terminate(ending)
        except ec2.RefusedError as error:
            self.broken = str(error)
        except CloudError as error:
            self._note(error)
        else:
            for id_ in ending:
                self._known[id_].ended = self._clocks.wall()

    # What is told.

    def _is_there(self, known: _Known) -> bool:
        """A released one is there again if EC2 was not heard to end it."""
        if known.ended is not None:
            return False
        return known.released is None or self._clocks.wall() - known.released >= _TOLD_AGAIN_S

    def _held(self) -> int:
        """Nodes that are there or may come."""
        there = sum(self._is_there(known) for known in self._known.values())
        return there + sum(order.left for order in self._orders.values())

    def _fates(self) -> list[Fate]:
        found: dict[str, list[str]] = {}
        for id_, known in self._known.items():
            found.setdefault(known.machine.token, []).append(id_)
        fates = [self._fate(order) for order in self._orders.values() if order.granted or order.refused]
        fates += [
            Fate(token=token, asked=len(ids), granted=tuple(map(NodeId, ids)), prices=self._prices(ids))
            for token, ids in found.items()
            if token not in self._orders
        ]
        return fates

    def _fate(self, order: Order) -> Fate:
        return Fate(
            token=order.token,
            asked=order.asked,
            granted=tuple(map(NodeId, order.granted)),
            refused=order.refused,
            reason=order.reason if order.refused else "",
            prices=self._prices(order.granted),
        )

    def _prices(self, ids: Collection[str]) -> Mapping[NodeId, float]:
        prices = {NodeId(id_): self._known[id_].machine.usd_per_hour for id_ in ids}
        return {node: usd for node, usd in prices.items() if usd is not None}

    def _note(self, error: CloudError) -> None:
        self.trouble = str(error)


def wait_until_gone(broker: Broker, *, rounds: int, pause: Callable[[float], None]) -> tuple[str, ...]:
    """End all that is left and look until a fresh listing shows nothing of the run; returns what it shows.

    `CloudError`: nobody could look.
    """
    broker.wind_up()
    for _ in range(rounds):
        broker.work()
        with contextlib.suppress(CloudError):
            broker.look_afresh()
            if not broker.alive() and broker.is_settled:
                return ()
        pause(1.0)
    broker.look_afresh()
    return broker.alive()
