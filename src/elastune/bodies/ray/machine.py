"""Telling machines apart: is this the one on which the driver runs?

Two machines may have a folder of the same name, and two made from one image even the same files in it. So a
path that exists here is not yet the driver's folder.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

MACHINE = "ELASTUNE_MACHINE"
"""In the environment: the name of this machine, where containers or virtual machines look alike."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_machine() -> str:
    """Differs from machine to machine, and from container to container."""
    given = os.environ.get(MACHINE)
    if given:
        return given
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"
