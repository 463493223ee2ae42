"""A plan: for every stage, how its slots are shared and how many nodes are held."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.errors import InvariantError
from elastune.prediction.allocation import Allocation


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """What one stage uses, and the nodes held while it runs (a later stage may need the surplus)."""

    allocation: Allocation
    nodes_held: int

    def __post_init__(self) -> None:
        if self.nodes_held < self.allocation.nodes:
            raise InvariantError(f"a stage holds fewer nodes than it uses: {self}")


@dataclass(frozen=True, slots=True)
class Plan:
    stages: tuple[StagePlan, ...]

    @property
    def peak_nodes(self) -> int:
        return max(stage.nodes_held for stage in self.stages)
