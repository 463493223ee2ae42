"""Machines that are reached by SSH, as a pool: a Ray node runs on each that the plan wants, while it does.

The machines need an SSH server, a login without a password, and Python with Elastune and Ray. Nothing is
installed, and nothing stays.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from elastune.errors import ExecutionError, JobError
from elastune.model.billing import Options, Quotation
from elastune.model.ids import NodeId
from elastune.model.quantities import ExpectedError, positive_duration
from elastune.providers.protocol import ProviderSetting
from elastune.providers.ray_cluster import RayLink
from elastune.providers.remote.head import RemoteHead, own_address
from elastune.providers.remote.node import NodeSpec, command_for
from elastune.providers.remote.pool import PoolProvider
from elastune.wording import did_you_mean, seen

_HOST = re.compile(r"(?:[\w.-]+@)?[A-Za-z0-9_][\w.-]*(?::\d{1,5})?")
_LEAST_PORTS = 50


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _seconds(value: object) -> object:
    try:
        return value if isinstance(value, bool) else positive_duration(value)
    except (ExpectedError, TypeError, AttributeError):
        raise ValueError("expected a duration such as 60s") from None


_Text = Annotated[str, Field(min_length=1, pattern=r"^[^\n\r\x00]+$")]
_Texts = Annotated[tuple[_Text, ...], BeforeValidator(_listed)]
_Port = Annotated[int, Field(ge=1024, le=65535)]


class SshOptions(BaseModel):
    """Which machines, and how they are reached."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    hosts: Annotated[_Texts, Field(min_length=1)]
    """host, user@host or host:port, in order of preference; names of ~/.ssh/config work."""
    ssh_options: _Texts = ()
    """More arguments for ssh, such as -J gateway."""
    key: _Text | None = None
    """The file of a private key; None: as ssh is configured."""
    setup: _Texts = ()
    """Shell commands on the machine before its node starts."""
    python: _Text | None = None
    """The interpreter on the machines; None: the path of the one that runs this."""
    address: _Text | None = None
    """The name or address of this machine as the others reach it; None: that of the interface towards the
    first of them."""
    ports: tuple[_Port, _Port] | None = None
    """The range of ports in which Ray listens on the machines; None: any."""
    lost_head_after: Annotated[float, BeforeValidator(_seconds)] = 60.0
    """A node that cannot reach the run for so long ends itself."""

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [host for host in hosts if _HOST.fullmatch(host) is None]
        twice = [host for number, host in enumerate(hosts) if host in hosts[:number]]
        if wrong or twice:
            which = f"{wrong[0]!r} is none" if wrong else f"{twice[0]!r} is there twice"
            raise ValueError(f"expected names such as gpu1, me@gpu2 or gpu3:2222, each once; {which}")
        return hosts

    @field_validator("ports")
    @classmethod
    def _are_enough(cls, ports: tuple[int, int] | None) -> tuple[int, int] | None:
        if ports is not None and ports[1] - ports[0] < _LEAST_PORTS - 1:
            raise ValueError(f"expected a range of at least {_LEAST_PORTS} ports, such as [20000, 20999]")
        return ports

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> SshOptions:
        """Raises `JobError` that names the option."""
        try:
            return cls(**options)
        except ValidationError as error:
            raise JobError("\n".join(_describe(each) for each in error.errors())) from None


def quote_price(options: Options) -> Quotation:
    """The machines are there already."""
    SshOptions.parse(options)
    return Quotation(usd_per_hour=0.0, source="own machines, no price", as_of="the job")


class SshProvider(PoolProvider):
    """`ray_link` is for tests."""

    def __init__(
        self,
        setting: ProviderSetting,
        *,
        slot_cpus: int = 1,
        slot_gpus: int = 0,
        ray_link: RayLink | None = None,
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus, ray_link=ray_link)
        self._options = SshOptions.parse(setting.options)

    @property
    def places(self) -> Sequence[str]:
        return self._options.hosts

    def open(self) -> None:
        if shutil.which("ssh") is None:
            raise ExecutionError("there is no ssh on this machine; expected OpenSSH's client")
        super().open()

    def command_of(self, place: str) -> Sequence[str]:
        host, _, port = place.partition(":")
        key = self._options.key
        words = (word for line in self._options.ssh_options for word in line.split())
        setup = "".join(f"{{ {line}; }} && " for line in self._options.setup)
        return [
            *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
            *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=4"),
            *([] if not port else ["-p", port]),
            *([] if key is None else ["-i", key]),
            *words,
            host,
            f"{setup}exec {command_for(self._options.python or sys.executable, '-')}",
        ]

    def spec_of(self, node: NodeId, place: str) -> NodeSpec:
        usual = super().spec_of(node, place)
        return replace(usual, lost_head_s=self._options.lost_head_after, ports=self._options.ports)

    def make_head(self) -> RemoteHead:
        first = self.places[0].rpartition("@")[2].partition(":")[0]
        return RemoteHead(self._setting, own_address(self._options.address, first))


def _describe(wrong: Any) -> str:
    name = str(wrong["loc"][0])
    match wrong["type"]:
        case "missing":
            text = "is missing; expected a list of machines, such as [gpu1, me@gpu2]"
        case "extra_forbidden":
            hint = did_you_mean(name, SshOptions.model_fields)
            text = f"is no option of ssh; expected one of {', '.join(SshOptions.model_fields)}{hint}"
        case "value_error":
            text = f"is {seen(wrong['input'])}; {wrong['ctx']['error']}"
        case _:
            text = f"is {seen(wrong['input'])}; {wrong['msg'].lower()}"
    return f"cluster.options.{name} {text}"
