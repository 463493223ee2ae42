"""This process as a driver of a Ray cluster that somebody else started.

Which nodes of a Ray cluster are about to be taken away, and which is which instance.

A node's watchdog tells Ray of a spot notice by draining the node; this is how a driver hears of it. A drained
Ray node takes no new work and keeps what it has; one without any work leaves the cluster at once.

A provider whose machines are nodes of a Ray cluster.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from elastune.errors import ExecutionError
from elastune.model.ids import NodeId
from elastune.providers.local.link import connect_quietly
from elastune.providers.protocol import Provider

_REACH_S = 5.0


class RayMembership:
    """Connects, unless this process is connected already; leaves only what it has joined."""

    def __init__(self, address: str) -> None:
        import ray  # noqa: PLC0415 - heavy

        self._connected = False
        if ray.is_initialized():
            return
        refuse_unreachable(address)
        try:
            connect_quietly(address)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            if address == "auto" and "any running Ray instance" in str(error):
                raise ExecutionError(
                    "no Ray cluster runs on this machine; start its head with `ray start --head` (docs/"
                    "aws.md says how, with a token), or say where it is, host:port"
                ) from error
            hint = _token_hint()
            raise ExecutionError(f"the Ray cluster {address!r} cannot be used: {error}{hint}") from error
        self._connected = True

    @property
    def head(self) -> str:
        """host:port, as other machines reach it."""
        import ray  # noqa: PLC0415

        return str(ray.get_runtime_context().gcs_address)

    def leave(self) -> None:
        """May be repeated."""
        if self._connected:
            import ray  # noqa: PLC0415

            ray.shutdown()
        self._connected = False


def _token_hint() -> str:
    """The usual reason, which Ray does not tell."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        return "; is the token in RAY_AUTH_TOKEN_PATH, or ~/.ray/auth_token, the cluster's own?"
    return "; if it asks for a token, set RAY_AUTH_MODE=token and put it into ~/.ray/auth_token"


def refuse_unreachable(address: str) -> None:
    """Ray would try for many minutes."""
    expected = "expected host:port of a running Ray cluster, or auto for the one on this machine"
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "://" in address:
        raise ExecutionError(f"the address {address!r} cannot be used, {expected}")
    try:
        socket.create_connection((host, int(port)), _REACH_S).close()
    except (OSError, OverflowError) as error:
        raise ExecutionError(f"nothing answers at {address!r} ({error}), {expected}") from error


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalCheck:
    """What a last look found, after everything was given back."""

    left: tuple[str, ...] = ()
    """Nodes that are still alive, or may be."""
    at: str
    """In UTC, as ISO 8601 has it."""
    how: str
    """Who was asked and when, for people: "listing of EC2 at 12:03:11 UTC"."""


class RayProvider(Provider, Protocol):
    """`open` before anything else, `close` at the end of the run."""

    def open(self) -> None:
        """Connect this process to the cluster. Raises `ExecutionError` with the reason if that fails."""
        ...

    def close(self) -> None:
        """Let go of everything that is left. Doing so twice is harmless."""
        ...

    @property
    def broken(self) -> str | None:
        """Why no node will ever come again; None: all is well."""
        ...

    def ray_node(self, node: NodeId) -> str | None:
        """The id by which Ray knows a node that is up."""
        ...

    @property
    def is_elsewhere(self) -> bool:
        """Whether nodes are on other machines, which have neither the user's code nor the run's folder. May
        be asked only while the provider is open."""
        ...

    def final_check(self) -> FinalCheck | None:
        """After `close`: is anything of this run still alive? None: nothing was started, or nobody can tell.

        Never raises. Where the look itself fails, `how` says so and `left` has what was not seen to end.
        """
        ...

    def billed_s(self, node: NodeId) -> float | None:
        """For how long a node, there or gone, was billed; None: for as long as it was there."""
        ...

    def outlived_s(self, node: NodeId, age_s: float, down_s: float) -> float:
        """For how long a node that was `age_s` old when its driver went down, `down_s` ago, went on costing
        money since."""
        ...

    def resources(self) -> tuple[float, float]:
        """The CPUs and GPUs that a run has to take of each node, so that nobody else does."""
        ...


def is_for_ray(provider: Provider) -> TypeGuard[RayProvider]:
    """Whether training can run on its machines; those of a simulation exist only in the mind."""
    return hasattr(provider, "ray_node")
