"""The program that makes a machine a node, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from elastune.providers.remote.node import NodeSpec


def start_node(head: str, node: str = "n", **more: Any) -> subprocess.Popen[bytes]:
    spec = NodeSpec(head=head, token="t", node=node, cpus=1, gpus=0, **more)
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "elastune.providers.remote.node", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    process.stdin.write(spec.encode().encode() + b"\n")
    process.stdin.flush()
    return process
