"""Which gangs must give way so that all fit: as few as possible.

Colocation makes room a matter of levels: room for gangs of 2, for gangs of 4, for whole nodes. Evicting a
gang gives room on levels above its own size and, as it needs a seat again, changes nothing below. So every
node has a few choices (evict these, gain that much on every level), and what is lacking must be gained with
the fewest evictions: a knapsack over nodes, solved exactly by dynamic programming over what is gained so far.

If sizes divide each other, the levels decide whether all fit, so this is the minimum. For other sizes they
are only necessary: the answer bounds the moves from below, and if the rest then fits it is the minimum, too.
RubberBand's Algorithm 3 (`displacement`) makes space node by node instead and does not look for the fewest.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from elastune.model.ids import TrialId
from elastune.placement.best_fit import GangTask

UNREACHABLE = np.iinfo(np.int64).max // 2
# Above this (states times choices of all nodes) Algorithm 3 is used instead. Measured: 6 to 10 ns each.
MAX_WORK = 20_000_000
# Above this a node evicts its smallest gangs only, and the answer may not be the minimum. Nodes of up to 20
# slots stay below.
MAX_CHOICES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionChoice:
    """Evict gangs of these sizes from a node; `gains` is the room that this makes on each lacking level."""

    sizes: tuple[int, ...]
    gains: tuple[int, ...]

    def beats(self, other: EvictionChoice) -> bool:
        gained = all(mine >= theirs for mine, theirs in zip(self.gains, other.gains, strict=True))
        return gained and len(self.sizes) <= len(other.sizes)


# A node, by its number, and its choices.
NodeChoices = tuple[int, list[EvictionChoice]]
Picked = tuple[int, EvictionChoice]


def solve_knapsack(options: Sequence[NodeChoices], lack: tuple[int, ...]) -> list[Picked] | None:
    """At most one choice per node, together gaining the lack, with the fewest evictions; None if impossible.

    Among equals, small node numbers win: they are the oldest nodes, which should become empty.
    """
    if not _may_gain(options, lack):
        return None
    eviction_cost = 1 + sum(node for node, _ in options)
    shape = tuple(amount + 1 for amount in lack)
    cost = np.full(shape, UNREACHABLE, dtype=np.int64)
    cost[(0,) * len(lack)] = 0
    decisions: list[NDArray[np.uint16]] = []
    for node, choices in options:
        before, decision = cost, np.zeros(shape, dtype=np.uint16)
        cost = before.copy()
        for number, choice in enumerate(choices, start=1):
            candidate = before[_sources(lack, choice)] + (len(choice.sizes) * eviction_cost + node)
            better = candidate < cost
            cost[better] = candidate[better]
            decision[better] = number
        decisions.append(decision)
    return _trace(options, decisions, lack) if cost[lack] < UNREACHABLE else None


def _may_gain(options: Sequence[NodeChoices], lack: tuple[int, ...]) -> bool:
    """A quick test first: enough if every node gave its most on every level."""
    return all(
        sum(max(choice.gains[level] for choice in choices) for _, choices in options) >= amount
        for level, amount in enumerate(lack)
    )


def _sources(lack: tuple[int, ...], choice: EvictionChoice) -> tuple[NDArray[np.intp], ...]:
    """For every amount gained, the amount before this choice."""
    axes = zip(lack, choice.gains, strict=True)
    return np.ix_(*(np.maximum(np.arange(amount + 1) - gain, 0) for amount, gain in axes))


def _trace(
    options: Sequence[NodeChoices], decisions: Sequence[NDArray[np.uint16]], lack: tuple[int, ...]
) -> list[Picked]:
    picked, state = [], lack
    for (node, choices), decision in zip(reversed(options), reversed(decisions), strict=True):
        if number := int(decision[state]):
            choice = choices[number - 1]
            picked.append((node, choice))
            state = tuple(max(0, amount - gain) for amount, gain in zip(state, choice.gains, strict=True))
    return picked[::-1]


def evict(task: GangTask) -> frozenset[TrialId] | None:
    """The fewest kept gangs that must move; None if evicting does not help or takes too long to compute."""
    lack = task.lack(task.kept)
    if not lack:
        return frozenset()
    tenants: list[list[TrialId]] = [[] for _ in task.open_slots]
    for trial, (node, *_) in reversed(task.kept.items()):  # lowest rank first
        if task.targets[trial] < task.slots_per_node:
            tenants[node].append(trial)
    sizes = [tuple(sorted(task.targets[trial] for trial in trials)) for trials in tenants]
    options = _options(list(zip(task.free_slots(task.kept), sizes, strict=True)), lack)
    work = math.prod(amount + 1 for amount in lack.values()) * sum(len(choices) for _, choices in options)
    picked = solve_knapsack(options, tuple(lack.values())) if work <= MAX_WORK else None
    if picked is None:
        return None
    evicted: set[TrialId] = set()
    for node, choice in picked:
        for size in choice.sizes:
            alike = (trial for trial in tenants[node] if task.targets[trial] == size)
            evicted.add(next(trial for trial in alike if trial not in evicted))
    return frozenset(evicted)


def _options(nodes: Sequence[tuple[int, tuple[int, ...]]], lack: dict[int, int]) -> list[NodeChoices]:
    """The choices of nodes, given by their free slots and the sizes of their gangs, oldest node first."""
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for node, shape in enumerate(nodes):
        alike[shape].append(node)
    enough = sum(lack.values())  # every choice gains something, so more nodes of a shape are never needed
    options = []
    for (free, sizes), numbers in alike.items():
        if choices := _choices(free, sizes, lack):
            options += [(node, choices) for node in numbers[:enough]]
    return sorted(options, key=lambda option: option[0])


def _choices(free: int, sizes: tuple[int, ...], lack: dict[int, int]) -> list[EvictionChoice]:
    """The choices of a node, without those that another one beats."""
    counts = sorted(Counter(sizes).items())
    if math.prod(count + 1 for _, count in counts) <= MAX_CHOICES:
        numbers = product(*(range(count + 1) for _, count in counts))
        subsets = [sum(((size,) * n for (size, _), n in zip(counts, ns, strict=True)), ()) for ns in numbers]
    else:
        subsets = [tuple(sorted(sizes)[:n]) for n in range(len(sizes) + 1)]
    choices: list[EvictionChoice] = []
    for subset in sorted(subsets, key=lambda subset: (len(subset), subset)):
        after = free + sum(subset)
        gains = tuple(
            min(amount, after // level - free // level - sum(size // level for size in subset))
            for level, amount in lack.items()
        )
        choice = EvictionChoice(sizes=subset, gains=gains)
        if any(gains) and not any(other.beats(choice) for other in choices):
            choices.append(choice)
    return choices
