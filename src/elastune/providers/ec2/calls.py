"""What Elastune asks of EC2: four calls, the values they exchange, and the ways in which they fail.

Everything that decides (what to ask for next, when to try again, what to end) is above this line and knows
no boto3; `api.py` is the real thing below it, and tests put a virtual one there. Times are seconds since
1970.

What a job says about its EC2 nodes: `cluster.options` of a job with `provider: ec2`.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from elastune.errors import JobError
from elastune.wording import did_you_mean, seen

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


class InstancePhase(enum.Enum):
    """Of an instance, as far as it matters here."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"
    """By somebody: no longer of use, but its disk costs money. It has to be ended."""
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
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
    offering: Offering
    tags: Mapping[str, str]
    user_data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """As EC2 lists it, which may be a while behind the truth."""

    id: str
    phase: InstancePhase
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
        return self.phase is not InstancePhase.ENDED

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


class Ec2Calls(Protocol):
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


class Buying(enum.StrEnum):
    """On which market nodes are bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    SPOT_WITH_FALLBACK = "spot-with-fallback"
    """Spot first; what cannot be had there, on demand."""


def markets_of(buying: Buying) -> tuple[Market, ...]:
    """By preference."""
    return {
        Buying.ON_DEMAND: (Market.ON_DEMAND,),
        Buying.SPOT: (Market.SPOT,),
        Buying.SPOT_WITH_FALLBACK: (Market.SPOT, Market.ON_DEMAND),
    }[buying]


def _several(value: object) -> object:
    """One is a list of one."""
    return (value,) if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_several)]


class Ec2Options(BaseModel):
    """Where and how instances are launched."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    instance_type: Annotated[Names, Field(min_length=1)]
    """One, or several by preference: the next is asked for when the one before cannot be had."""
    image: Text
    """The AMI: any Linux with systemd, Python 3.11 or newer and, for GPUs, their driver."""
    token_secret: Text | None = None
    """Name or ARN in Secrets Manager of the Ray cluster's token; None: the cluster has none."""
    region: Text | None = None
    """None: as the AWS configuration of this machine says."""
    subnet: Names = ()
    """One, or several by preference, each in a zone of its own."""
    security_group: Names = ()
    key: Text | None = None
    instance_profile: Text | None = None
    """Name or ARN: the role under which a node reads the token and, where `storage` says so, writes to S3."""
    market: Buying = Buying.ON_DEMAND
    interruptions_per_hour: Annotated[float, Field(ge=0.0, le=60.0)] = 0.05
    """How often a spot node is expected to be taken away."""
    setup: Names = ()
    """Shell commands run as root on a new node, before Ray starts."""
    packages: Names = ()
    """What pip installs on a new node besides Elastune and Ray, in the wording of pip."""
    preinstalled: bool = False
    """The image has Elastune, Ray and all packages already: a node calls no pip."""
    elastune: Text | None = None
    """Where pip finds Elastune; None: this version, from the index that the image's pip knows."""
    python: Text = "python3"
    """The interpreter on the image whose environment Ray and the training use."""
    disk_gb: Annotated[int, Field(ge=1)] | None = None
    """Of the root volume; None: as the image has it."""
    owner: Text | None = None
    """Who pays, for people who look at tags; None: the user who runs the driver."""
    head: Text = "auto"
    """host:port of the Ray cluster; auto: the one on this machine."""
    lost_head_after: Annotated[float, Field(ge=1.0, allow_inf_nan=False)] = 300.0
    """A node that cannot reach the head for so many seconds ends itself."""

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Ec2Options:
        """Raises `JobError` that names the option."""
        try:
            return cls(**options)
        except ValidationError as error:
            raise JobError("\n".join(_tell(each) for each in error.errors())) from None


_SUCH_AS = {
    "instance_type": "p3.8xlarge, or several by preference",
    "image": "ami-0123456789abcdef0",
    "disk_gb": "200",
    "lost_head_after": "300, in seconds",
    "interruptions_per_hour": "0.05",
    "preinstalled": "true or false",
    "subnet": "subnet-0123456789abcdef0, or several by preference",
    "security_group": "sg-0123456789abcdef0, or several",
    "setup": "a list of shell commands",
    "packages": "a list of packages, as pip knows them",
}


def _tell(wrong: Any) -> str:
    name = str(wrong["loc"][0])
    such_as = f"; expected {_SUCH_AS[name]}" if name in _SUCH_AS else f"; {wrong['msg'].lower()}"
    match wrong["type"]:
        case "missing":
            said = f"is missing{such_as}"
        case "extra_forbidden":
            hint = did_you_mean(name, Ec2Options.model_fields)
            said = f"is no option of ec2; expected one of {', '.join(Ec2Options.model_fields)}{hint}"
        case "enum":
            said = f"is {seen(wrong['input'])}; expected {', '.join(Buying)}"
        case _:
            said = f"is {seen(wrong['input'])}{such_as}"
    return f"cluster.options.{name} {said}"
