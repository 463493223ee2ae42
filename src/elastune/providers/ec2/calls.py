"""The four calls to EC2, their values and errors, and `cluster.options` of a job with `provider: ec2`.

The broker, which decides what to call and when to try again, knows no boto3; `api.py` makes the real calls,
and tests replace it. Times are seconds since 1970.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from elastune.errors import JobError
from elastune.model.billing import BillingRule
from elastune.wording import did_you_mean, seen

BILLING = BillingRule(minimum_charge_s=60.0, increment_s=1.0, shutdown_s=60.0, least_life_s=120.0)
"""https://aws.amazon.com/ec2/pricing/on-demand: by the second, a minute at least (Linux). A node checks its
lease every few seconds; the rest of `shutdown_s` is the shutdown."""

RUN = "elastune:run"
REQUEST = "elastune:request"
ASKED = "elastune:asked"
JOB = "elastune:job"
OWNER = "elastune:owner"
PRICE = "elastune:usd-per-hour"
EXPIRY = "elastune:expiry"
"""Seconds since 1970 after which the instance ends itself. A living driver extends it."""


class Market(enum.StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class InstancePhase(enum.Enum):
    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"
    """By hand: no longer of use, but its disk costs money. It has to be ended."""
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """One way to get a node, and its price."""

    instance_type: str
    market: Market
    subnet: str | None
    """Decides the zone; None: the default of the account."""
    usd_per_hour: float
    most_usd_per_hour: float | None = None
    """Spot prices move: above this EC2 does not launch it, or takes it back."""

    def __str__(self) -> str:
        where = "" if self.subnet is None else f" in {self.subnet}"
        return f"{self.instance_type} {self.market}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """EC2 launches nothing twice for the same `client_token`, so a launch can be repeated."""

    client_token: str
    count: int
    offering: Offering
    tags: Mapping[str, str]
    user_data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """As EC2 lists it, with some lag."""

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
    """EC2's text on why it ended."""

    @property
    def is_alive(self) -> bool:
        return self.phase is not InstancePhase.ENDED

    @property
    def expires(self) -> float | None:
        return self._number(EXPIRY)

    @property
    def usd_per_hour(self) -> float | None:
        return self._number(PRICE)

    def _number(self, tag: str) -> float | None:
        """None: the tag is missing, or was changed by hand."""
        try:
            return float(self.tags[tag])
        except (KeyError, ValueError):
            return None


class CloudError(Exception):
    """EC2 refused, or did not answer."""


class NoCapacityError(CloudError):
    """Not of this type, in this zone, or at this time; another offering may work."""


class BusyError(CloudError):
    """Too many calls: nothing was done, try again later."""


class UnsureError(CloudError):
    """No answer: only repeating the call shows whether it was executed."""


class AlreadyLaunchedError(CloudError):
    """The client token was used before, with other arguments: its instances exist, or will soon."""


class RefusedError(CloudError):
    """It can never work: a right is missing, or an option names what does not exist."""


class Ec2Calls(Protocol):
    def launch(self, launch: Launch) -> tuple[Instance, ...]:
        """At least one and at most `count`, or an error."""

    def instances(self, run: str | None = None) -> tuple[Instance, ...]:
        """Those of a run, or of all runs; also those that ended recently."""

    def terminate(self, instances: Collection[str]) -> None:
        """Ended ones are no error. Unknown ones are, because they may be too young: try again later."""

    def put_off(self, instances: Collection[str], expires: float) -> None:
        """Set their expiry; errors as with `terminate`."""


class Buying(enum.StrEnum):
    """The option `market`."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    SPOT_WITH_FALLBACK = "spot-with-fallback"
    """Spot first, then on demand for the rest."""


def markets_of(buying: Buying) -> tuple[Market, ...]:
    """In order of preference."""
    return {
        Buying.ON_DEMAND: (Market.ON_DEMAND,),
        Buying.SPOT: (Market.SPOT,),
        Buying.SPOT_WITH_FALLBACK: (Market.SPOT, Market.ON_DEMAND),
    }[buying]


Text = Annotated[str, Field(min_length=1)]
# A text is a list of one.
_several = BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
Names = Annotated[tuple[Text, ...], _several]


class Ec2Options(BaseModel):
    """Where and how instances are launched."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    instance_type: Annotated[Names, Field(min_length=1)]
    """One, or several by preference: the next is requested when the one before has no capacity."""
    image: Text
    """The AMI: any Linux with systemd, Python 3.11 or newer and, for GPUs, their driver."""
    token_secret: Text | None = None
    """Name or ARN in Secrets Manager of the Ray cluster's token; None: the cluster has none."""
    region: Text | None = None
    """None: the one in the AWS configuration of this machine."""
    subnet: Names = ()
    """One, or several by preference, each in a zone of its own."""
    security_group: Names = ()
    key: Text | None = None
    instance_profile: Text | None = None
    """Name or ARN: the role under which a node reads the token and, where `storage` says so, writes to S3."""
    market: Buying = Buying.ON_DEMAND
    interruptions_per_hour: Annotated[float, Field(ge=0.0, le=60.0)] = 0.05
    """The expected rate at which a spot node is taken away."""
    setup: Names = ()
    """Shell commands run as root on a new node, before Ray starts."""
    packages: Names = ()
    """Requirements that pip installs on a new node besides Elastune and Ray."""
    preinstalled: bool = False
    """The image has Elastune, Ray and all packages already: pip is not called."""
    elastune: Text | None = None
    """Where pip finds Elastune; None: this version, from the index of the image's pip."""
    python: Text = "python3"
    """The interpreter on the image whose environment Ray and the training use."""
    disk_gb: Annotated[int, Field(ge=1)] | None = None
    """Of the root volume; None: that of the image."""
    owner: Text | None = None
    """A tag: who pays; None: the user who runs the driver."""
    head: Text = "auto"
    """host:port of the Ray cluster; auto: the one on this machine."""
    lost_head_after: Annotated[float, Field(ge=1.0, allow_inf_nan=False)] = 300.0
    """A node that cannot reach the head for this many seconds ends itself."""

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Ec2Options:
        """Raises `JobError` that names the option."""
        try:
            return cls(**options)
        except ValidationError as error:
            raise JobError("\n".join(_describe(each) for each in error.errors())) from None


_EXAMPLES = {
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


def _describe(wrong: Any) -> str:
    name = str(wrong["loc"][0])
    expected = f"; expected {_EXAMPLES[name]}" if name in _EXAMPLES else f"; {wrong['msg'].lower()}"
    match wrong["type"]:
        case "missing":
            text = f"is missing{expected}"
        case "extra_forbidden":
            hint = did_you_mean(name, Ec2Options.model_fields)
            text = f"is no option of ec2; expected one of {', '.join(Ec2Options.model_fields)}{hint}"
        case "enum":
            text = f"is {seen(wrong['input'])}; expected {', '.join(Buying)}"
        case _:
            text = f"is {seen(wrong['input'])}{expected}"
    return f"cluster.options.{name} {text}"
