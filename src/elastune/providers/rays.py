"""A provider whose machines are nodes of a Ray cluster."""

from __future__ import annotations

from typing import Protocol

from elastune.place import NodeId
from elastune.providers.protocol import Provider


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

    def resources(self) -> tuple[float, float]:
        """The CPUs and GPUs that a run has to take of each node, so that nobody else does."""
        ...
