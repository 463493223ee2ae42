"""`cluster.options` of a job with `provider: ssh`, and how a machine is reached with them."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from elastune.errors import JobError
from elastune.model.billing import Options, Quotation
from elastune.model.quantities import ExpectedError, positive_duration
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


def ssh_command(options: SshOptions, place: str, module: str, *arguments: str) -> Sequence[str]:
    """Runs a module of Elastune on a machine."""
    host, _, port = place.partition(":")
    words = (word for line in options.ssh_options for word in line.split())
    setup = "".join(f"{{ {line}; }} && " for line in options.setup)
    program = [options.python or sys.executable, "-u", "-m", module, *arguments]
    return [
        *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
        *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=4"),
        *([] if not port else ["-p", port]),
        *([] if options.key is None else ["-i", options.key]),
        *words,
        host,
        f"{setup}exec {shlex.join(program)}",
    ]


def host_name(options: SshOptions, place: str) -> str:
    """What a name in ~/.ssh/config stands for; other names as they are."""
    host = place.partition(":")[0]
    words = [word for line in options.ssh_options for word in line.split()]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603
            [shutil.which("ssh") or "ssh", "-G", *words, host],
            capture_output=True,
            text=True,
            timeout=10.0,
            check=True,
        )
        for line in done.stdout.splitlines():
            key, _, value = line.partition(" ")
            if key == "hostname" and value:
                return value
    return host.rpartition("@")[2]


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
