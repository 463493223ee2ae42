"""The declared shape of a search: stages of trials, each ended by a barrier.

Successive Halving is one sequence of stages (RubberBand section 3.1; Jamieson and Talwalkar 2016), Hyperband
several of them side by side (Li et al. 2018). Any other sequence can be declared, too (RubberBand Figure 6).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from elastune.errors import InvariantError
from elastune.model.quantities import rational


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`trials` trials that each do `iterations` iterations of *new* work, then a barrier.

    `remaining` is set only if a plan is made in the middle of a stage: the iterations that each trial still
    owes. Then `iterations` is the largest of them.
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
            raise InvariantError(f"remaining must have one value per trial, at most `iterations`, got {self}")

    @property
    def work(self) -> tuple[int, ...]:
        return self.remaining or (self.iterations,) * self.trials


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One sequence of stages. Hyperband is several of them side by side.

    `brackets` is set if this one stands for several, whose trials train the same iterations at the same time:
    the trials of each bracket, by stage. Trials are compared with those of their bracket alone.
    """

    name: str
    stages: tuple[Stage, ...]
    brackets: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.stages:
            raise InvariantError(f"spec {self.name!r} has no stages")
        if self.brackets and tuple(map(sum, self.brackets)) != tuple(stage.trials for stage in self.stages):
            raise InvariantError(f"spec {self.name!r} has {self.brackets} trials by bracket in {self.stages}")


def successive_halving(
    *, trials: int, min_iterations: int, max_iterations: int, eta: float, name: str = "sha"
) -> Spec:
    """Stage k has `floor(trials / eta^k)` trials and `floor(min_iterations * eta^k)` iterations of new work.

    The search ends at one trial or when a trial reaches `max_iterations` in all; the last stage has the
    iterations left. If the division skips 1 (8 trials by thirds: 8, 2, 0) the search still goes on to a
    single trial.
    """
    stages: list[Stage] = []
    done = 0
    while True:
        power = rational(eta) ** len(stages)
        left = max(1, trials // power)
        work = min_iterations * power // 1
        if left == 1 or done + work >= max_iterations:
            stages.append(Stage(trials=left, iterations=max_iterations - done))
            return Spec(name=name, stages=tuple(stages))
        stages.append(Stage(trials=left, iterations=work))
        done += work


def hyperband(*, max_iterations: int, eta: float, min_iterations: int = 1) -> tuple[Spec, ...]:
    """The brackets, most exploratory first.

    Bracket s starts `ceil((s_max + 1) / (s + 1) * eta^s)` trials at `ceil(R * eta^-s)` iterations, with
    `s_max = floor(log_eta(R / r))`. All in exact numbers, so that no bracket is lost to rounding. Stages have
    new work, as in Successive Halving here, not the cumulated work of the paper.
    """
    s_max, base = 0, rational(eta)
    while min_iterations * base ** (s_max + 1) <= max_iterations:
        s_max += 1
    return tuple(
        successive_halving(
            trials=-(-(s_max + 1) * base**s // (s + 1)),
            min_iterations=-(-max_iterations // base**s),
            max_iterations=max_iterations,
            eta=eta,
            name=f"bracket {s}",
        )
        for s in range(s_max, -1, -1)
    )


def in_rounds(specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """Several specs as one, for trials that all train an iteration before any begins the next (hopping).

    A stage ends where that of any bracket ends.
    """
    if len(specs) == 1:
        return tuple(specs)
    ends = [list(itertools.accumulate(stage.iterations for stage in spec.stages)) for spec in specs]
    stages: list[Stage] = []
    brackets: list[tuple[int, ...]] = []
    for before, after in itertools.pairwise([0, *sorted({end for each in ends for end in each})]):
        present = [sum(end <= before for end in each) for each in ends]
        pairs = zip(specs, present, strict=True)
        counts = tuple(s.stages[now].trials if now < len(s.stages) else 0 for s, now in pairs)
        stages.append(Stage(trials=sum(counts), iterations=after - before))
        brackets.append(counts)
    names = ", ".join(spec.name for spec in specs)
    return (Spec(name=names, stages=tuple(stages), brackets=tuple(brackets)),)
