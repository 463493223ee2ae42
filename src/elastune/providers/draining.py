"""Which nodes of a Ray cluster are about to be taken away, and which is which instance.

A node's watchdog tells Ray of a spot notice by draining the node; this is how a driver hears of it. A drained
Ray node takes no new work and keeps what it has; one without any work leaves the cluster at once.
"""

from __future__ import annotations

import time

INSTANCE_LABEL = "elastune-instance"
"""Of a Ray node: the EC2 instance on which it runs."""


def draining_nodes() -> dict[str, float]:
    """By Ray's id, the time (seconds since 1970) until which a node is there; 0.0: none was told.

    For a process that is connected to Ray. Ray promises no way to ask this; the one taken here is that of
    its own libraries (Ray 2.52 to 2.60).
    """
    from ray._private.state import state  # noqa: PLC0415 - heavy

    return {node: deadline_ms / 1000.0 for node, deadline_ms in state.get_draining_nodes().items()}


def noticed_nodes(now_s: float) -> dict[str, float]:
    """The same on the run's clock, which is at `now_s`. A node without a time may go at once."""
    ahead_s = now_s - time.time()
    return {node: max(now_s, until + ahead_s) for node, until in draining_nodes().items()}


def ray_nodes_by_instance() -> dict[str, str]:
    """Instance id to Ray's id, of all nodes that are alive."""
    import ray  # noqa: PLC0415 - heavy

    return {
        instance: node["NodeID"]
        for node in ray.nodes()
        if node["Alive"] and (instance := node["Labels"].get(INSTANCE_LABEL)) is not None
    }
