"""`python -m elastune.providers.ray_start ...`: `ray start ...` with more patience.

Ray gives a node 30 seconds to register, then leaves it half started. A busy machine, or a new one that reads
its disk for the first time, may need more; the node would end, be paid for its minimum, and be replaced.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray._private import services

PATIENCE_S = 120.0
_LOOK_S = 0.05

_look_once = services.get_node


def look_patiently(gcs_address: str, node_id: str) -> Any:
    """Ray's description of a node; a RuntimeError if it has not registered in time."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _look_once(gcs_address, node_id)
        except RuntimeError:
            if time.monotonic() >= until:
                raise
            time.sleep(_LOOK_S)


@contextmanager
def patience() -> Iterator[None]:
    """A node that Ray starts meanwhile, in this process, may take as long as that to register."""
    services.get_node = look_patiently
    try:
        yield
    finally:
        services.get_node = _look_once


if __name__ == "__main__":
    from ray.scripts.scripts import cli  # takes two seconds, which the provider of local nodes has no need of

    with patience():
        cli(["start", *sys.argv[1:]], prog_name="ray")
