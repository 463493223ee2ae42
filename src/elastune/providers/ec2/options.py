"""What a job says about its EC2 nodes: `cluster.options` of a job with `provider: ec2`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from elastune.errors import JobError
from elastune.providers.ec2.cloud import Market
from elastune.wording import did_you_mean, seen


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
