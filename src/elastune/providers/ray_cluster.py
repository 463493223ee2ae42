"""Providers whose machines are nodes of a Ray cluster: their contract, and this process as Ray's driver.

The watchdog of a node passes a spot notice on by draining its Ray node, and `noticed_nodes` reads that. A
drained Ray node takes no new work and keeps what it has; one without any work leaves the cluster at once.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self, TypeGuard

from elastune.errors import ExecutionError
from elastune.model.ids import NodeId
from elastune.providers.local.link import connected_quietly
from elastune.providers.protocol import Price, Provider, ProviderSetting

_REACH_S = 5.0
INSTANCE_LABEL = "elastune-instance"
"""Label of a Ray node: the machine on which it runs, by its name at the provider."""


class RayMembership:
    """Connects, unless this process is connected already; `leave` disconnects only what it connected."""

    def __init__(self, address: str) -> None:
        import ray  # noqa: PLC0415 - heavy

        self._connection = contextlib.ExitStack()
        if ray.is_initialized():
            return
        refuse_unreachable(address)
        try:
            self._connection.enter_context(connected_quietly(address))
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            if address == "auto" and "any running Ray instance" in str(error):
                raise ExecutionError(
                    "no Ray cluster runs on this machine; start its head with `ray start --head` (docs/"
                    "aws.md says how, with a token), or say where it is, host:port"
                ) from error
            hint = _token_hint()
            raise ExecutionError(f"the Ray cluster {address!r} cannot be used: {error}{hint}") from error

    @property
    def head(self) -> str:
        """host:port, as other machines reach it."""
        import ray  # noqa: PLC0415

        return str(ray.get_runtime_context().gcs_address)

    def leave(self) -> None:
        """May be repeated."""
        self._connection.close()


def _token_hint() -> str:
    """The most frequent reason, which Ray's message omits."""
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


def draining_nodes() -> dict[str, float]:
    """By Ray's id, the time (seconds since 1970) until which a node is there; 0.0: no time was given.

    This process must be connected. Ray has no public call for this; the one used here is that of its own
    libraries (Ray 2.52 to 2.60).
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


class RayLink:
    """From machines to Ray nodes, as the head lists them; tests replace it."""

    def joined(self) -> Mapping[str, str]:
        """Ray's ids of machines whose Ray node is up."""
        return ray_nodes_by_instance()

    def leaving(self) -> Mapping[str, float]:
        """By Ray's id, until when a node under notice is there; seconds since 1970."""
        now = time.time()  # a node that was drained without a time may go at once
        return {node: max(now, until) for node, until in draining_nodes().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalCheck:
    """What a last listing found after everything was released."""

    left: tuple[str, ...] = ()
    """Nodes that are still alive, or may be."""
    at: str
    """UTC, ISO 8601."""
    how: str
    """The source and the time, for people: "listing of EC2 at 12:03:11 UTC"."""

    @classmethod
    def now(cls, left: tuple[str, ...], source: str) -> Self:
        at = datetime.now(UTC)
        return cls(left=left, at=at.isoformat(timespec="seconds"), how=f"{source} at {at:%H:%M:%S} UTC")


class RayProvider(Provider, Protocol):
    """`open` comes before everything else, `close` at the end of the run."""

    def open(self) -> None:
        """Connect this process to the cluster, or raise `ExecutionError` with the reason."""

    def close(self) -> None:
        """Release everything that is left. May be repeated."""

    @property
    def broken(self) -> str | None:
        """Why no node can ever come again; None: nothing is wrong."""

    def ray_node(self, node: NodeId) -> str | None:
        """Ray's id of a node that is up, for `NodeAffinitySchedulingStrategy`."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether nodes are on other machines, which have neither the user's code nor the run's folder. Known
        only while the provider is open."""

    def final_check(self) -> FinalCheck | None:
        """After `close`: what of this run is still alive? None: nothing was started, or it cannot be listed.

        Never raises. Where the listing fails, `how` says so and `left` has what was not seen to end.
        """

    def billed_s(self, node: NodeId) -> float | None:
        """For how long a node, there or gone, was billed; None: for as long as it was listed."""

    def outlived_s(self, node: NodeId, age_s: float, down_s: float) -> float:
        """For how long a node that was `age_s` old when its driver went down, `down_s` ago, kept costing
        money since."""

    def resources(self) -> tuple[float, float]:
        """The CPUs and GPUs that a run reserves on each node, so that no other work gets them."""


class RayProviderBase(ABC):
    """What Ray providers share, with the defaults of nodes that end with their driver and are not billed."""

    def __init__(self, setting: ProviderSetting, slot_cpus: int, slot_gpus: int) -> None:
        self._setting = setting
        slots = setting.terms.slots_per_node
        self._node_cpus, self._node_gpus = slots * slot_cpus, slots * slot_gpus

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def boot_logs(self) -> Mapping[NodeId, str]:
        """The end of the logs of some nodes that never came up, as far as they can be read."""
        return {}

    def limit_nodes(self, most: int) -> None:
        self._setting = replace(self._setting, terms=replace(self._setting.terms, max_nodes=most))

    def price(self) -> Price:
        return Price.of(self._setting.terms)

    def billed_s(self, node: NodeId) -> float | None:
        return None

    def outlived_s(self, node: NodeId, age_s: float, down_s: float) -> float:
        return 0.0

    def resources(self) -> tuple[float, float]:
        return float(self._node_cpus), float(self._node_gpus)


def is_for_ray(provider: Provider) -> TypeGuard[RayProvider]:
    """Whether training can run on its machines; those of the simulated provider cannot train."""
    return hasattr(provider, "ray_node")
