"""Hyperband as several Successive Halving specs side by side (Li et al. 2018; RubberBand Figure 6)."""

from __future__ import annotations

from elastune.spec.stage import Spec
from elastune.spec.successive_halving import successive_halving


def hyperband(*, max_iterations: int, eta: int, min_iterations: int = 1) -> tuple[Spec, ...]:
    """The brackets, most exploratory first.

    Bracket s starts `ceil((s_max + 1) / (s + 1) * eta^s)` trials at `ceil(R * eta^-s)` iterations, with
    `s_max = floor(log_eta(R / r))`. All in integers, so that no bracket is lost to rounding. Rungs hold
    new work, as in Successive Halving here, not the cumulated work of the original paper.
    """
    s_max = 0
    while min_iterations * eta ** (s_max + 1) <= max_iterations:
        s_max += 1
    return tuple(
        successive_halving(
            trials=_ceil_div((s_max + 1) * eta**s, s + 1),
            min_iterations=_ceil_div(max_iterations, eta**s),
            max_iterations=max_iterations,
            eta=eta,
            name=f"bracket {s}",
        )
        for s in range(s_max, -1, -1)
    )


def _ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
