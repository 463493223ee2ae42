"""Gain what is lacking with the fewest evictions: exact, by dynamic programming over what is gained so far.

Knows numbers only; what a gain means is the business of `evicting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

UNREACHABLE = np.iinfo(np.int64).max // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Evict gangs of these sizes from a node; `gains` is the room that this makes where it lacks."""

    sizes: tuple[int, ...]
    gains: tuple[int, ...]

    def beats(self, other: Choice) -> bool:
        gained = all(mine >= theirs for mine, theirs in zip(self.gains, other.gains, strict=True))
        return gained and len(self.sizes) <= len(other.sizes)


# A node, by its number, and what can be done there.
Offer = tuple[int, list[Choice]]


def solve_knapsack(offers: Sequence[Offer], lack: tuple[int, ...]) -> list[tuple[int, Choice]] | None:
    """At most one choice per node, together gaining the lack, with the fewest evictions; None if impossible.

    Among equals the node numbers are small: nodes are numbered from the oldest, and those get empty.
    """
    if not _may_gain(offers, lack):
        return None
    eviction_cost = 1 + sum(node for node, _ in offers)
    shape = tuple(amount + 1 for amount in lack)
    cost = np.full(shape, UNREACHABLE, dtype=np.int64)
    cost[(0,) * len(lack)] = 0
    decisions: list[NDArray[np.uint16]] = []
    for node, choices in offers:
        before, decision = cost, np.zeros(shape, dtype=np.uint16)
        cost = before.copy()
        for number, choice in enumerate(choices, start=1):
            candidate = before[_sources(lack, choice)] + (len(choice.sizes) * eviction_cost + node)
            better = candidate < cost
            cost[better] = candidate[better]
            decision[better] = number
        decisions.append(decision)
    return _trace(offers, decisions, lack) if cost[lack] < UNREACHABLE else None


def _may_gain(offers: Sequence[Offer], lack: tuple[int, ...]) -> bool:
    """Enough if every node gave its most on every level: asked first, as it takes no time."""
    return all(
        sum(max(choice.gains[level] for choice in choices) for _, choices in offers) >= amount
        for level, amount in enumerate(lack)
    )


def _sources(lack: tuple[int, ...], choice: Choice) -> tuple[NDArray[np.intp], ...]:
    """For every amount gained, the amount from which this choice leads there."""
    axes = zip(lack, choice.gains, strict=True)
    return np.ix_(*(np.maximum(np.arange(amount + 1) - gain, 0) for amount, gain in axes))


def _trace(
    offers: Sequence[Offer], decisions: Sequence[NDArray[np.uint16]], lack: tuple[int, ...]
) -> list[tuple[int, Choice]]:
    picked, state = [], lack
    for (node, choices), decision in zip(reversed(offers), reversed(decisions), strict=True):
        number = int(decision[state])
        if number:
            choice = choices[number - 1]
            picked.append((node, choice))
            state = tuple(max(0, amount - gain) for amount, gain in zip(state, choice.gains, strict=True))
    return picked[::-1]
