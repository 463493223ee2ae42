"""A provider whose machines are nodes of a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeGuard

from elastune.place import NodeId
from elastune.providers.protocol import Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Farewell:
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

    def farewell(self) -> Farewell | None:
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
