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


class Registration:
    """Waits for a node to register, unless its raylet has ended: then Ray's half minute is long enough."""

    def __init__(self) -> None:
        self._look = services.get_node
        self._start = services.start_ray_process
        self._raylets: list[Any] = []

    def start(self, command: list[str], process_type: str, *rest: Any, **options: Any) -> Any:
        """As Ray starts a process, which is remembered."""
        started = self._start(command, process_type, *rest, **options)
        if process_type == "raylet":
            self._raylets.append(started.process)
        return started

    def look(self, gcs_address: str, node_id: str) -> Any:
        """Ray's description of a node; a RuntimeError if it has not registered in time."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._look(gcs_address, node_id)
            except RuntimeError:
                if time.monotonic() >= until or any(each.poll() is not None for each in self._raylets):
                    raise
                time.sleep(_LOOK_S)


@contextmanager
def patience() -> Iterator[None]:
    """A node that Ray starts meanwhile, in this process, may take as long as that to register."""
    before = services.get_node, services.start_ray_process
    registration = Registration()
    services.get_node, services.start_ray_process = registration.look, registration.start
    try:
        yield
    finally:
        services.get_node, services.start_ray_process = before


if __name__ == "__main__":
    from ray.scripts.scripts import cli  # takes two seconds, which the provider of local nodes has no need of

    with patience():
        cli(["start", *sys.argv[1:]], prog_name="ray")
