"""A model of EC2: what it promises, what it does not, and the faults in between.

Kept apart from the code it tests: it knows instances, tags and client tokens, and counts money by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from elastune.providers.ec2 import calls as ec2
from elastune.providers.ec2.calls import Instance, InstancePhase, Launch, Market

T = TypeVar("T")

MINIMUM_S = 60.0


class DriverKilledError(BaseException):
    """Somebody killed the driver, here and now. Not to be caught by the code under test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfortune:
    """How EC2 treats us. All chances are per call."""

    busy: float = 0.0
    unheard: float = 0.0
    """No answer, and nothing was done."""
    unanswered: float = 0.0
    """No answer, though it was done."""
    no_capacity: float = 0.0
    partial: float = 0.0
    lag_s: float = 0.0
    """Listings show things as they were up to so long ago."""
    lost_per_hour: float = 0.0
    noticed_per_hour: float = 0.0
    boot_failure: float = 0.0
    watchdog_s: float = 55.0
    """So long after its expiry an instance is gone, at most."""
    outages: tuple[tuple[float, float], ...] = ()
    """From when to when nothing answers at all; wall clock."""
    killed_after: tuple[int, ...] = ()
    """Calls at which the driver is killed: just before an even one has its effect, just after an odd one."""


@dataclass(slots=True)
class Box:
    """One instance as it really is."""

    id: str
    launch: Launch
    launched: float
    ready: float
    ends: float
    """By itself or by a call, its expiry aside."""
    noticed: float
    tags: list[tuple[float, dict[str, str]]] = field(default_factory=list)
    """As they were from when on."""
    watchdog_s: float = 0.0
    terminated: float = math.inf
    reason: str = ""

    @property
    def ended(self) -> float:
        """At the expiry as it was known then: one that is put off in time does not count."""
        expiry = self._expires()
        return min(self.ends, self.terminated, expiry + self.watchdog_s)

    def _expires(self) -> float:
        """The first expiry that passed before it was changed."""
        until = math.inf
        for number, (_, tags) in enumerate(self.tags):
            until = float(tags[ec2.EXPIRY])
            changed = self.tags[number + 1][0] if number + 1 < len(self.tags) else math.inf
            if until <= changed:
                return until
        return until

    def usd(self, at: float) -> float:
        seconds = max(MINIMUM_S, min(at, self.ended) - self.launched)
        return seconds * self.launch.offering.usd_per_hour / 3600.0

    def listed(self, at: float) -> Instance:
        """As a listing of that moment shows it."""
        tags = next((tags for since, tags in reversed(self.tags) if since <= at), self.tags[0][1])
        ended = self.ended
        phase = (
            InstancePhase.RUNNING
            if at < ended
            else InstancePhase.ENDING
            if at < ended + 20.0
            else InstancePhase.ENDED
        )
        phase = InstancePhase.PENDING if at < self.launched + 5.0 and at < ended else phase
        return Instance(
            id=self.id,
            phase=phase,
            launched=math.floor(self.launched),
            instance_type=self.launch.offering.instance_type,
            market=self.launch.offering.market,
            tags=tags,
            client_token=self.launch.client_token,
            reason=self.reason,
        )


class VirtualEc2:
    """`wall` is the time. Everything else follows from the seed and from what is called when."""

    def __init__(self, wall: Callable[[], float], misfortune: Misfortune, *, seed: int) -> None:
        self.wall = wall
        self.misfortune = misfortune
        self.luck = Random(f"ec2 {seed}")
        self.boxes: dict[str, Box] = {}
        self.heard: dict[str, tuple[Launch, tuple[str, ...]]] = {}
        """What was launched, by client token."""
        self.calls = 0
        self._ids = itertools.count()

    # What is asked of it.

    def launch(self, launch: Launch) -> tuple[Instance, ...]:
        effect = self.call()
        before = self.heard.get(launch.client_token)
        if before is not None:
            if before[0] != launch:
                raise ec2.AlreadyLaunchedError("IdempotentParameterMismatch")
            return self.answer(effect, tuple(self.boxes[id_].listed(self.wall()) for id_ in before[1]))
        count = self.grants({"MaxCount": str(launch.count)})
        if not count:
            self.answer(effect, None)
            raise ec2.NoCapacityError("InsufficientInstanceCapacity")
        boxes = [self.start(launch, f"i-{next(self._ids):04d}") for _ in range(count)]
        self.heard[launch.client_token] = (launch, tuple(box.id for box in boxes))
        return self.answer(effect, tuple(box.listed(self.wall()) for box in boxes))

    def instances(self, run: str | None = None) -> tuple[Instance, ...]:
        effect = self.call()
        now = self.wall()
        as_of = self.listing_as_of()
        shown = (box for box in self.boxes.values() if box.launched <= as_of)
        found = (box.listed(as_of) for box in shown if now < box.ended + 3600.0)
        return self.answer(effect, tuple(each for each in found if run in {None, each.tags[ec2.RUN]}))

    def terminate(self, instances: Collection[str]) -> None:
        effect = self.call()
        self.end(instances)
        self.answer(effect, None)

    def put_off(self, instances: Collection[str], expires: float) -> None:
        effect = self.call()
        self.retag(instances, expires)
        self.answer(effect, None)

    # What happens to it.

    def end(self, instances: Collection[str]) -> None:
        for id_ in instances:
            if id_ in self.boxes:
                self.boxes[id_].terminated = min(self.wall(), self.boxes[id_].terminated)

    def retag(self, instances: Collection[str], expires: float) -> None:
        for id_ in instances:
            if id_ in self.boxes:
                box = self.boxes[id_]
                box.tags.append((self.wall(), {**box.tags[-1][1], ec2.EXPIRY: str(int(expires))}))

    def grants(self, arguments: Mapping[str, str]) -> int:
        """How many of `MaxCount` can be had now."""
        count = int(arguments["MaxCount"])
        if self.luck.random() < self.misfortune.no_capacity:
            return 0
        if count > 1 and self.luck.random() < self.misfortune.partial:
            return self.luck.randint(1, count - 1)
        return count

    def listing_as_of(self) -> float:
        return self.wall() - self.luck.random() * self.misfortune.lag_s

    # How it really is.

    def joined(self) -> list[str]:
        """Instances whose Ray node is up."""
        now = self.wall()
        return [id_ for id_, box in self.boxes.items() if box.ready <= now < box.ended]

    def notices(self) -> dict[str, float]:
        now = self.wall()
        return {id_: box.ends for id_, box in self.boxes.items() if box.noticed <= now < box.ended}

    def alive(self, at: float) -> list[str]:
        return [id_ for id_, box in self.boxes.items() if box.launched <= at < box.ended]

    def bill_usd(self, at: float = math.inf) -> float:
        return math.fsum(box.usd(at) for box in self.boxes.values() if box.launched <= at)

    def last_end(self) -> float:
        return max((box.ended for box in self.boxes.values()), default=-math.inf)

    def most_at_once(self, request: str) -> int:
        """Instances that were alive for a request at the same time."""
        boxes = [box for box in self.boxes.values() if box.launch.tags[ec2.REQUEST] == request]
        return max((sum(b.launched <= box.launched < b.ended for b in boxes) for box in boxes), default=0)

    # Faults.

    def call(self) -> bool:
        """Whether the caller gets an answer. Raises what keeps the call from having an effect."""
        self.calls += 1
        misfortune, now = self.misfortune, self.wall()
        if self.calls in misfortune.killed_after and not self.calls % 2:
            raise DriverKilledError
        if any(begin <= now < end for begin, end in misfortune.outages):
            raise ec2.UnsureError("nothing answers")
        chance = self.luck.random()
        if chance < misfortune.busy:
            raise ec2.BusyError("RequestLimitExceeded")
        if chance < misfortune.busy + misfortune.unheard:
            raise ec2.UnsureError("connection reset")
        return chance >= misfortune.busy + misfortune.unheard + misfortune.unanswered

    def answer(self, heard: bool, answer: T) -> T:
        if self.calls in self.misfortune.killed_after:
            raise DriverKilledError
        if not heard:
            raise ec2.UnsureError("read timeout")
        return answer

    def start(self, launch: Launch, id_: str) -> Box:
        now, misfortune = self.wall(), self.misfortune
        ends = now + self._wait(misfortune.lost_per_hour)
        noticed = math.inf
        if launch.offering.market is Market.SPOT:
            noticed = now + self._wait(misfortune.noticed_per_hour)
            ends = min(ends, noticed + 120.0)
        boots = self.luck.random() >= misfortune.boot_failure
        box = self.boxes[id_] = Box(
            id=id_,
            launch=replace(launch),
            launched=now,
            ready=now + self.luck.uniform(20.0, 60.0) if boots else math.inf,
            ends=ends,
            noticed=noticed,
            tags=[(now, dict(launch.tags))],
            watchdog_s=self.luck.uniform(0.0, misfortune.watchdog_s),
        )
        return box

    def _wait(self, per_hour: float) -> float:
        return self.luck.expovariate(per_hour / 3600.0) if per_hour else math.inf
