"""The instances of one run, as launches and listings show them, and their leases.

Listings lag behind. The answer of a launch counts before the listing shows it; what was ended is ended again
if it is still listed a minute later; what is not listed for a minute is gone.

All instances of a run have the same expiry, which a living driver extends, but not beyond what the budget
pays for: before more instances are launched, the others get the earlier expiry that follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from elastune.model.ids import NodeId
from elastune.providers.ec2.calls import (
    BILLING,
    REQUEST,
    CloudError,
    Ec2Calls,
    Instance,
    InstancePhase,
    RefusedError,
)
from elastune.providers.protocol import Machine

SHUTDOWN_S = BILLING.shutdown_s
LAG_S = 60.0
"""The longest time for which a listing may omit what is there."""
_LATE_S = 0.5
RETRY_S = 5.0
"""After this, a released instance whose end EC2 has not accepted is listed, and ended, again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """`wall` has seconds since 1970, as EC2 does; `run` is the clock of the run."""

    wall: Callable[[], float]
    run: Callable[[], float]

    def to_run(self, wall: float) -> float:
        return self.run() - (self.wall() - wall)


@dataclass(slots=True)
class FleetMember:
    """One instance. Times are of the wall clock, but for those of its machine."""

    instance: Instance
    machine: Machine
    listed: float
    """When a listing, or the answer to its launch, showed it last."""
    expires: float
    """Its earliest expiry."""
    expires_most: float
    """Its latest: a call that changed it may have got no answer."""
    is_ours: bool = True
    """Launched by this driver, not by an earlier one."""
    released: float | None = None
    ended: float | None = None
    is_late: bool = False
    """It ended some time after its release, and the run has not seen that yet."""


class InstanceFleet:
    """`usd_per_hour` is the price of nodes without a tag for it."""

    def __init__(self, clocks: Clocks, usd_per_hour: float) -> None:
        self._clocks = clocks
        self._usd_per_hour = usd_per_hour
        self._members: dict[str, FleetMember] = {}
        self._listed_alive: frozenset[str] = frozenset()
        self._joined: dict[str, float] = {}

    def __getitem__(self, id_: str) -> FleetMember:
        return self._members[id_]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def get(self, id_: str) -> FleetMember | None:
        return self._members.get(id_)

    # News.

    def take_in(self, instances: Sequence[Instance], asked: float) -> list[str]:
        """Update from a listing that was requested at time `asked`; returns the instances that are new."""
        new = [instance.id for instance in instances if instance.id not in self._members]
        for instance in instances:
            member = self._members.get(instance.id) or self.adopt(instance)
            member.listed = max(asked, member.listed)
            if instance.phase in {InstancePhase.ENDING, InstancePhase.ENDED}:
                self._end(member, instance)
            elif instance.phase is InstancePhase.STOPPED and member.released is None:
                member.released = asked
            elif member.ended is None:
                member.instance = instance
            elif asked - member.ended > LAG_S:  # it did not end after all
                member.ended, member.released = None, asked
        phases = {instance.id: instance.phase for instance in instances}
        running = {InstancePhase.PENDING, InstancePhase.RUNNING}
        self._listed_alive = frozenset(id_ for id_, phase in phases.items() if phase in running)
        for id_, member in self._members.items():
            if id_ not in phases and member.ended is None and asked - member.listed > LAG_S:
                self._end(member, member.instance)
        return new

    def adopt(self, instance: Instance, *, began_s: float | None = None) -> FleetMember:
        """`began_s`: when we asked for it, by the run's clock; None: an earlier driver did."""
        since_s = min(self._clocks.run(), self._clocks.to_run(instance.launched))
        usd, expires = instance.usd_per_hour, instance.expires or 0.0
        member = self._members[instance.id] = FleetMember(
            instance=instance,
            machine=Machine(
                node=NodeId(instance.id),
                token=instance.tags.get(REQUEST, ""),
                since_s=since_s if began_s is None else max(began_s, since_s),
                usd_per_hour=None if usd is None or usd == self._usd_per_hour else usd,
            ),
            listed=self._clocks.wall(),
            expires=expires,
            expires_most=math.inf if began_s is None else expires,
            is_ours=began_s is not None,
        )
        if instance.id in self._joined:
            self.join(instance.id, self._joined[instance.id])
        return member

    def _end(self, member: FleetMember, instance: Instance) -> None:
        if member.ended is None:
            latest = member.expires if instance.expires is None else instance.expires
            member.ended = min(self._clocks.wall(), max(latest, member.expires) + SHUTDOWN_S)
            member.instance = instance

    def join(self, id_: str, at_s: float) -> None:
        """Its Ray node is up since `at_s` of the run."""
        member = self._members.get(id_)
        if member is None:  # its launch got no answer, and no listing has shown it yet
            self._joined[id_] = at_s
        elif member.machine.ready_s is None:
            member.machine = replace(member.machine, ready_s=max(at_s, member.machine.since_s))

    def notice(self, id_: str, until: float) -> None:
        """It will be taken away then."""
        member = self._members.get(id_)
        if member is not None and member.machine.until_s is None:
            member.machine = replace(member.machine, until_s=self._clocks.to_run(until))

    def lease(self, ids: Collection[str], expires: float, *, is_sure: bool) -> None:
        """Their expiry was changed, or may have been."""
        for id_ in ids:
            member = self._members[id_]
            least = expires if is_sure else min(member.expires, expires)
            most = expires if is_sure else max(member.expires_most, expires)
            member.expires, member.expires_most = least, most

    def release(self, ids: Collection[str]) -> bool:
        """Returns whether one of them was not released before."""
        news, now = False, self._clocks.wall()
        for member in (self._members[id_] for id_ in ids if id_ in self._members):
            member.is_late = False
            if member.ended is None:
                news = news or member.released is None
                member.released = now
        return news

    def has_ended(self, ids: Collection[str]) -> None:
        """EC2 has accepted their end."""
        for id_ in ids:
            member, now = self._members[id_], self._clocks.wall()
            member.is_late = member.released is not None and now - member.released > _LATE_S
            member.ended = now

    # Queries.

    def is_there(self, member: FleetMember) -> bool:
        """A released one is there again if EC2 does not accept its end."""
        if member.ended is not None:
            return member.is_late
        return member.released is None or self._clocks.wall() - member.released >= RETRY_S

    def machines(self) -> list[Machine]:
        """Oldest first."""
        there = [member.machine for member in self._members.values() if self.is_there(member)]
        return sorted(there, key=lambda machine: machine.since_s)

    def by_token(self) -> dict[str, list[str]]:
        """All instances, also those that ended."""
        found: dict[str, list[str]] = {}
        for id_, member in self._members.items():
            found.setdefault(member.machine.token, []).append(id_)
        return found

    def leased(self) -> list[str]:
        """Those that are neither released nor ended."""
        return [id_ for id_, each in self._members.items() if each.ended is None and each.released is None]

    def failed_starts(self) -> list[str]:
        """Those of this driver that ended before they were ready, without having been released."""
        return [
            id_
            for id_, each in self._members.items()
            if each.is_ours and each.ended is not None and each.released is None
            if each.machine.ready_s is None
        ]

    def to_end(self) -> list[str]:
        """Those that are released and whose end EC2 has not accepted."""
        members = self._members.items()
        return [id_ for id_, each in members if each.ended is None and each.released is not None]

    def alive(self) -> tuple[str, ...]:
        """All that may still cost money: not known to have ended, or still listed as alive."""
        members = self._members.items()
        return tuple(id_ for id_, each in members if each.ended is None or id_ in self._listed_alive)

    def billed_s(self, id_: str) -> float | None:
        """For how long it was billed so far; None: not known."""
        member = self._members.get(id_)
        if member is None:
            return None
        until = self._clocks.wall() if member.ended is None else member.ended
        return max(0.0, until - member.instance.launched)

    def prices(self, ids: Collection[str]) -> Mapping[NodeId, float]:
        """Of those whose price is not the usual one."""
        prices = {NodeId(id_): self._members[id_].machine.usd_per_hour for id_ in ids}
        return {node: usd for node, usd in prices.items() if usd is not None}


LEASE_S = 600.0
"""How long instances live without a driver, if the budget lasts."""
_RENEW_BELOW_S = LEASE_S * 2 / 3
_LOOK_S = 50.0
_RETRY_LEASE_S = 5.0
_CLOSE_S = 1.0
_HEARD_S = 30.0
"""By then a run has looked at what a listing shows, even if it was planning."""


class Leases:
    """`until_s` returns until when, by the run's clock, the budget lasts; None: not known yet."""

    def __init__(
        self, cloud: Ec2Calls, fleet: InstanceFleet, clocks: Clocks, until_s: Callable[[], float | None]
    ) -> None:
        self._cloud = cloud
        self._fleet = fleet
        self._clocks = clocks
        self._until_s = until_s
        self.due = -math.inf
        self.trouble: str | None = None
        self.broken: str | None = None
        """Why no lease can ever be extended."""
        self._met: dict[str, float] = {}
        """Instances that a listing showed first while the run went on, and when."""

    def meet(self, new: Collection[str]) -> None:
        """A listing shows these for the first time. If the run goes on, it may believe that they are lost and
        that others may spend their money: until it has heard of them no lease is extended."""
        if self.expiry() is not None:
            self._met |= dict.fromkeys(new, self._clocks.wall())

    def expiry(self) -> float | None:
        """The new expiry for all instances, by the wall clock."""
        until_s = self._until_s()
        return None if until_s is None else self._clocks.wall() + min(LEASE_S, until_s - self._clocks.run())

    def renew(self) -> bool:
        """Extend the expiry where it is due, shorten it where the budget requires it.

        Returns false if an instance may live longer than the budget lasts: then nothing may be launched.
        """
        now, expiry, leased = self._clocks.wall(), self.expiry(), self._fleet.leased()
        self.due, self.trouble = now + (_HEARD_S if self._met else _LOOK_S), None
        if expiry is None or not leased:
            return True
        soonest = min(self._fleet[id_].expires for id_ in leased)
        latest = max(self._fleet[id_].expires_most for id_ in leased)
        self._met = {id_: met for id_, met in self._met.items() if now - met < _HEARD_S}
        if self._fleet.to_end() or self._met:  # they may cost money that the run does not count
            expiry = min(expiry, soonest)
        is_long = latest > expiry + _CLOSE_S
        is_short = soonest < now + _RENEW_BELOW_S and expiry > soonest + _CLOSE_S
        if not (is_long or is_short):
            return True
        try:
            self._cloud.put_off(leased, expiry)
        except RefusedError as error:
            self.broken = str(error)
            return False
        except CloudError as error:
            self.due, self.trouble = now + _RETRY_LEASE_S, str(error)
            self._fleet.lease(leased, expiry, is_sure=False)
            return not is_long
        self._fleet.lease(leased, expiry, is_sure=True)
        return True
