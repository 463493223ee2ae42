"""Nodes as the core knows them, and the pools they belong to.

Three facts are kept apart: nodes *wanted* by the policy, *requested* from the provider, and *observed*.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from elastune.place import NodeId


@dataclass(slots=True)
class Node:
    """Billed from `born_s`, by the run's clock."""

    number: NodeId
    pool: int
    request: int
    born_s: float
    ready_s: float | None = None
    leaving: bool = False
    """Takes nothing new and goes when it is empty: the provider gave notice, or it is not wanted."""
    until_s: float | None = None
    """When the provider takes it away."""
    hosts: tuple[str, ...] = ()
    """What its machine is called, where that matters."""


@dataclass(slots=True)
class Pool:
    """Nodes that serve one sequence of stages. Most policies have one; Hyperband has one per bracket."""

    number: int
    wanted: int = 0
    requested: dict[int, int] = field(default_factory=dict)
    """Nodes still to be answered for, by request."""
    asked: dict[int, int] = field(default_factory=dict)
    """What those requests asked for in all."""
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    """Oldest first."""
    ready: int = 0
    leaving: int = 0
    stage: int = 0
    retry_s: float | None = None
    """After a refusal: when to ask again."""
    refusals: int = 0
    """In a row."""

    @property
    def outstanding(self) -> int:
        return sum(self.requested.values())

    @property
    def staying(self) -> int:
        """Nodes, up or booting, that are not about to go."""
        return len(self.nodes) - self.leaving

    @property
    def coming(self) -> int:
        """Nodes, with those asked for, that are not about to go."""
        return self.staying + self.outstanding
