"""The user data of a node: a script that makes an EC2 instance a Ray node, and ends it when its lease passes.

The pieces of the script are in `scripts/`; they are joined here, and the job's values are quoted. User data
must hold no secrets: all who may describe an instance can read it. It only names the token of the Ray
cluster, which the instance reads by its role.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from elastune.errors import JobError
from elastune.providers.ec2.calls import EXPIRY
from elastune.providers.ray_cluster import INSTANCE_LABEL

USER_DATA_BYTES = 16 * 1024
"""EC2's limit, before encoding."""

_SHELL = ("common.sh", "watchdog.sh", "boot.sh")
_PYTHON = {"READ_TOKEN": "read_token.py", "READ_LEASE": "read_lease.py", "FIND_NODE": "find_node.py"}
_CREDENTIALS = re.compile(r"https?://[^/@\s]+@|[a-zA-Z][\w+.-]*://[^/@\s:]+:[^/@\s]+@")


@dataclass(frozen=True, slots=True, kw_only=True)
class BootScript:
    head: str
    """host:port of the Ray cluster, as a node reaches it."""
    cpus: int
    gpus: int
    """Of the Ray node."""
    region: str
    expires: float
    """The first lease, in seconds since 1970: the machine ends then, unless its tag says later."""
    ray: str
    """The head's exact version: Ray refuses others."""
    elastune: str
    """A requirement for pip, such as `elastune[aws]==0.1.0`."""
    token_secret: str | None = None
    """In Secrets Manager; None: the cluster asks for no token."""
    python: str = "python3"
    packages: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    preinstalled: bool = False
    """The image has Elastune, Ray and all else: pip is not called."""
    lost_head_after: float = 300.0


def render(boot: BootScript) -> str:
    """The script. Raises `JobError` if it would be too long or hold credentials."""
    for option, words in (("elastune", (boot.elastune,)), ("packages", boot.packages), ("setup", boot.setup)):
        _refuse_credentials(option, words)
    script = "\n".join(("#!/bin/bash", _header(boot), *(_piece(name) for name in _SHELL)))
    excess = len(script.encode()) - USER_DATA_BYTES
    if excess > 0:
        raise JobError(
            f"cluster.options.setup and packages are {excess:,} bytes too long: with them a node's script "
            f"has {USER_DATA_BYTES + excess:,} bytes, and EC2 takes {USER_DATA_BYTES:,}; put the commands "
            "into a file, on the image or in S3, and let setup call it"
        )
    return script


def _header(boot: BootScript) -> str:
    packages = (boot.elastune, f"ray=={boot.ray}", *boot.packages)
    settings = {
        "HEAD": boot.head,
        "CPUS": str(boot.cpus),
        "GPUS": str(boot.gpus),
        "REGION": boot.region,
        "TOKEN_SECRET": boot.token_secret or "",
        "EXPIRY": str(math.ceil(boot.expires)),
        "LEASE_TAG": EXPIRY,
        "LOST_HEAD_AFTER": str(math.ceil(boot.lost_head_after)),
        "LABEL": INSTANCE_LABEL,
        "PYTHON": boot.python,
        "PREINSTALLED": "yes" if boot.preinstalled else "",
    }
    code = {name: _piece(file) for name, file in _PYTHON.items()}
    lines = [f"{name}={shlex.quote(value)}" for name, value in (settings | code).items()]
    return "\n".join((*lines, f"PACKAGES=({_quoted(packages)})", f"SETUP=({_quoted(boot.setup)})", ""))


def _quoted(words: Iterable[str]) -> str:
    return " ".join(shlex.quote(word) for word in words)


def _piece(name: str) -> str:
    return (files(__package__) / "scripts" / name).read_text(encoding="utf-8")


def _refuse_credentials(option: str, words: Iterable[str]) -> None:
    for word in words:
        if "\0" in word:
            raise JobError(f"cluster.options.{option} holds a zero byte, which a shell refuses: remove it")
        if _CREDENTIALS.search(word):
            raise JobError(
                f"cluster.options.{option} holds an address with a user or password before its @, which all "
                "who may describe the instance can read; let setup fetch it from Secrets Manager"
            )
