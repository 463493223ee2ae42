"""The declared shape of a search: stages of trials, each ended by a barrier."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.errors import InvariantError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`trials` trials that each do `iterations` iterations of *new* work, then a barrier.

    `remaining` is set only when a plan is made in the middle of a stage: the iterations that each
    trial still owes, which may differ. Then `iterations` is the largest of them.
    """

    trials: int
    iterations: int
    remaining: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.trials < 1 or self.iterations < 0:
            raise InvariantError(f"a stage needs trials >= 1 and iterations >= 0, got {self}")
        if self.remaining and (
            len(self.remaining) != self.trials
            or min(self.remaining) < 0
            or max(self.remaining) != self.iterations
        ):
            raise InvariantError(f"remaining work does not match the stage: {self}")

    @property
    def work(self) -> tuple[int, ...]:
        """Iterations that each trial has to do."""
        return self.remaining or (self.iterations,) * self.trials


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One sequence of stages. Hyperband is several of them side by side."""

    name: str
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise InvariantError(f"spec {self.name!r} has no stages")
