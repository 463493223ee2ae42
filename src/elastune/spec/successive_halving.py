"""Successive Halving as declared stages (RubberBand section 3.1; Jamieson and Talwalkar 2016)."""

from __future__ import annotations

from elastune.spec.stage import Spec, Stage


def successive_halving(
    *, trials: int, min_iterations: int, max_iterations: int, eta: int, name: str = "sha"
) -> Spec:
    """Stage k has `floor(trials / eta^k)` trials and `min_iterations * eta^k` iterations of new work.

    The search ends at one trial or when a trial reaches `max_iterations` in all; the last stage takes
    what remains up to that. Where the division skips the one (8 trials by thirds: 8, 2, 0) the search
    still goes on to a single trial.
    """
    stages: list[Stage] = []
    done = 0
    while True:
        power = eta ** len(stages)
        left = max(1, trials // power)
        work = min_iterations * power
        if left == 1 or done + work >= max_iterations:
            stages.append(Stage(trials=left, iterations=max_iterations - done))
            return Spec(name=name, stages=tuple(stages))
        stages.append(Stage(trials=left, iterations=work))
        done += work
