"""What Elastune asks of EC2: four calls, the values they exchange, and the ways in which they fail.

Everything that decides (what to ask for next, when to try again, what to end) is above this line and knows
no boto3; `api.py` is the real thing below it, and tests put a virtual one there. Times are seconds since
1970.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

RUN = "elastune:run"
REQUEST = "elastune:request"
ASKED = "elastune:asked"
JOB = "elastune:job"
OWNER = "elastune:owner"
PRICE = "elastune:usd-per-hour"
EXPIRY = "elastune:expiry"
"""Seconds since 1970 after which the instance ends itself. A living driver puts it off."""


class Market(enum.StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class Phase(enum.Enum):
    """Of an instance, as far as it matters here."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"
    """By somebody: no longer of use, but its disk costs money. It has to be ended."""
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ware:
    """One way to get a node, and what it costs there."""

    instance_type: str
    market: Market
    subnet: str | None
    """Decides the zone; None: the default of the account."""
    usd_per_hour: float
    most_usd_per_hour: float | None = None
    """Spot prices move: above this EC2 shall not give it, or take it back."""

    def __str__(self) -> str:
        where = "" if self.subnet is None else f" in {self.subnet}"
        return f"{self.instance_type} {self.market}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """`client_token` makes it safe to repeat: EC2 launches nothing twice for the same one."""

    client_token: str
    count: int
    ware: Ware
    tags: Mapping[str, str]
    user_data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """As EC2 lists it, which may be a while behind the truth."""

    id: str
    phase: Phase
    launched: float
    instance_type: str
    market: Market
    tags: Mapping[str, str] = field(default_factory=dict)
    zone: str = ""
    private_ip: str | None = None
    client_token: str = ""
    reason: str = ""
    """Why it ended, in EC2's words."""

    @property
    def is_alive(self) -> bool:
        return self.phase is not Phase.ENDED

    @property
    def expires(self) -> float | None:
        """None: no driver of ours has said."""
        try:
            return float(self.tags[EXPIRY])
        except (KeyError, ValueError):
            return None

    @property
    def usd_per_hour(self) -> float | None:
        try:
            return float(self.tags[PRICE])
        except (KeyError, ValueError):
            return None


class CloudError(Exception):
    """EC2 said no, or nothing."""


class NoCapacityError(CloudError):
    """Not of this kind, or not here, or not now; another ware may do."""


class BusyError(CloudError):
    """Too many calls: nothing was done, try again later."""


class UnsureError(CloudError):
    """No answer: it may have been done or not. Only a repetition can tell."""


class AlreadyLaunchedError(CloudError):
    """The client token was used before, with another wording: its instances are there, or on their way."""


class RefusedError(CloudError):
    """It will never work like this: a right is missing, or an option names what does not exist."""


class Cloud(Protocol):
    def launch(self, launch: Launch) -> tuple[Instance, ...]:
        """At least one and at most `count`, or an error."""
        ...

    def instances(self, run: str | None = None) -> tuple[Instance, ...]:
        """Those of a run, or of all runs; also those that ended not long ago."""
        ...

    def terminate(self, instances: Collection[str]) -> None:
        """Ended ones are no error. One that EC2 does not know is: it may be too young, so try again later."""
        ...

    def put_off(self, instances: Collection[str], expires: float) -> None:
        """Set their expiry; likewise."""
        ...
