"""Which gangs have to give way so that all fit: as few as possible.

Colocation makes room a matter of levels: room for gangs of 2, for gangs of 4, for whole nodes. Evicting a
gang gives room on levels above its own size and, as it needs a seat again, changes nothing below. So every
node offers a few choices (evict these, gain that much on every level) and what is lacking has to be gained
with the fewest evictions: a knapsack over nodes, solved exactly by dynamic programming over what is gained.

If sizes divide each other, the levels decide whether all fit, so this is the minimum. For other sizes they
are necessary only: the answer bounds the moves from below, and if the rest then fits it is the minimum too.

RubberBand's Algorithm 3 makes space node by node instead (see `displacing`) and does not look for the fewest.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import product

from elastune.place.board import Task
from elastune.place.knapsack import Choice, Offer, solve_knapsack
from elastune.place.request import TrialId

# Beyond this (states times choices of all nodes) Algorithm 3 is asked instead. Measured: 6 to 10 ns each.
MAX_WORK = 20_000_000
# Beyond this a node offers its so many smallest gangs only, and the answer need not be the minimum. Nodes of
# up to 20 slots never get there.
MAX_CHOICES = 128


def evict(task: Task) -> frozenset[TrialId] | None:
    """The fewest kept gangs that must move; None if evicting does not help or takes too long to decide."""
    lack = task.lack(task.kept)
    if not lack:
        return frozenset()
    tenants: list[list[TrialId]] = [[] for _ in task.open_slots]
    for trial, (node, *_) in reversed(task.kept.items()):  # lowest rank first
        if task.targets[trial] < task.slots_per_node:
            tenants[node].append(trial)
    free = task.free_slots(task.kept)
    sizes = [tuple(sorted(task.targets[trial] for trial in trials)) for trials in tenants]
    offers = _offers(list(zip(free, sizes, strict=True)), lack)
    work = math.prod(amount + 1 for amount in lack.values()) * sum(len(choices) for _, choices in offers)
    picked = solve_knapsack(offers, tuple(lack.values())) if work <= MAX_WORK else None
    if picked is None:
        return None
    evicted: set[TrialId] = set()
    for node, choice in picked:
        for size in choice.sizes:
            alike = (trial for trial in tenants[node] if task.targets[trial] == size)
            evicted.add(next(trial for trial in alike if trial not in evicted))
    return frozenset(evicted)


def _offers(nodes: Sequence[tuple[int, tuple[int, ...]]], lack: dict[int, int]) -> list[Offer]:
    """What nodes with so many free slots and gangs of such sizes can do about the lack, oldest node first."""
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for node, shape in enumerate(nodes):
        alike[shape].append(node)
    enough = sum(lack.values())  # every choice gains something, so more nodes of a shape are never needed
    offers = []
    for (free, sizes), numbers in alike.items():
        choices = _choices(free, sizes, lack)
        if choices:
            offers += [(node, choices) for node in numbers[:enough]]
    return sorted(offers, key=lambda offer: offer[0])


def _choices(free: int, sizes: tuple[int, ...], lack: dict[int, int]) -> list[Choice]:
    """What a node can offer; choices that another one beats are left out."""
    counts = sorted(Counter(sizes).items())
    if math.prod(count + 1 for _, count in counts) <= MAX_CHOICES:
        numbers = product(*(range(count + 1) for _, count in counts))
        subsets = [sum(((size,) * n for (size, _), n in zip(counts, ns, strict=True)), ()) for ns in numbers]
    else:
        subsets = [tuple(sorted(sizes)[:n]) for n in range(len(sizes) + 1)]
    choices: list[Choice] = []
    for subset in sorted(subsets, key=lambda subset: (len(subset), subset)):
        after = free + sum(subset)
        gains = tuple(
            min(amount, after // level - free // level - sum(size // level for size in subset))
            for level, amount in lack.items()
        )
        choice = Choice(sizes=subset, gains=gains)
        if any(gains) and not any(other.beats(choice) for other in choices):
            choices.append(choice)
    return choices
