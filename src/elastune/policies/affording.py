"""What limits and cluster allow of rounds that a tariff has a price for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from elastune.cluster.billing import bills_nodes, node_rate, unused_s
from elastune.core import RunTerms, State
from elastune.policies.tariff import Leg, Tariff

_ROUNDING = 1e-9


def affords(terms: RunTerms, tracks: Sequence[Sequence[Leg]]) -> bool:
    """Whether the cluster holds these rounds, and the budget pays for them."""
    tariff, budget = Tariff.of(terms), terms.limits.budget_usd
    if tariff.nodes_needed(tracks) > terms.cluster.max_nodes:
        return False
    return budget is None or tariff.price_usd(tracks) <= budget * (1 + _ROUNDING)


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, if all smaller ones do; 0 if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def money_for(state: State, tariff: Tariff, rest: Sequence[Sequence[Leg]]) -> float | None:
    """What is left for rounds to come, less the minimum charges that nodes still owe when they go."""
    left_usd, cluster = state.money_left_usd, tariff.cluster
    if left_usd is None or not bills_nodes(cluster):
        return left_usd
    going = max(0, len(state.where) - tariff.nodes_held(rest))
    rest_s = tariff.seconds(rest)
    owed_s = 0.0
    for place, node in enumerate(sorted(state.where.values(), key=lambda node: node.born_s)):
        age_s = state.now_s - node.born_s + (0.0 if place < going else rest_s)
        owed_s += unused_s(cluster, age_s)
    return left_usd - owed_s * node_rate(cluster)
