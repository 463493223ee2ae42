"""How good the rest of a plan can be at best: bounds that let labels be dropped before they are extended.

The least time, the least cost or the least of both at a price per second, from a stage on, is a plain
shortest path over the nodes held. The minimum
charges of young nodes are left out, which can only make it smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastune.planning.network import IntArray, Network, StageSteps
from elastune.profiles.distributions import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """The least from the start of each stage on, by the nodes held before it."""

    levels: tuple[IntArray, ...]
    rest: tuple[Array, ...]
    waiting_price: float
    """What a surplus node may cost, once, while others are launched."""

    def at(self, stage: int, held: IntArray) -> Array:
        """More nodes are no worse, but for that, so between two levels the higher one bounds."""
        levels = self.levels[stage]
        above = np.minimum(np.searchsorted(levels, held), levels.size - 1)
        surplus = np.maximum(0, levels[above] - held)
        rest: Array = self.rest[stage][above] - self.waiting_price * surplus
        return rest


@dataclass(frozen=True, slots=True)
class Prices:
    """What a second and a dollar count for."""

    second: float
    dollar: float


TIME_ONLY, COST_ONLY = Prices(1.0, 0.0), Prices(0.0, 1.0)


def relax(network: Network, prices: Prices) -> Relaxation:
    """Shortest paths backwards from the end."""
    start = len(network.node_ages_s)
    reachable = [np.array([min(start, network.max_nodes)]), *(steps.held for steps in network.stages)]
    levels = [np.unique(np.concatenate(reachable[: i + 1])) for i in range(len(reachable))]
    levels[0] = np.array([start])
    rest = [np.zeros(levels[-1].size)]
    for stage in reversed(range(len(network.stages))):
        steps, held = network.stages[stage], levels[stage][:, None]
        target, choice = _choices(network, steps, held)
        totals = _transitions(network, steps, (held, target, choice), prices)
        totals += rest[-1][np.searchsorted(levels[stage + 1], target)]
        rest.append(np.where(choice >= 0, totals, np.inf).min(axis=1))
    waiting = network.waiting_usd_per_node * prices.dollar
    return Relaxation(levels=tuple(levels), rest=tuple(reversed(rest)), waiting_price=waiting)


def _choices(network: Network, steps: StageSteps, held: IntArray) -> tuple[IntArray, IntArray]:
    """Nodes held next and choice (-1: none), one row for every number of nodes held before."""
    target = np.broadcast_to(steps.held, (held.size, steps.held.size))
    choice = np.broadcast_to(np.arange(steps.held.size), target.shape)
    if not network.bills_nodes:
        return np.minimum(np.maximum(target, held), network.max_nodes), choice
    stay = np.minimum(held, network.max_nodes)
    return np.column_stack([target, stay]), np.column_stack([choice, steps.fastest_within(stay)])


def _transitions(
    network: Network, steps: StageSteps, step: tuple[IntArray, IntArray, IntArray], prices: Prices
) -> Array:
    """What going from `held` to `target` nodes by a choice of the stage counts for."""
    held, target, choice = step
    new = np.maximum(0, target - held)
    time: Array = steps.time[choice] + network.scale_time[new]
    if not prices.dollar:
        return prices.second * time
    node_s = (target - new) * network.scale_s[new] + new * network.init_s[new]
    node_s = node_s + target * steps.duration_s[choice]
    cost: Array = network.node_usd_per_s * node_s + steps.cost_at(choice, target) + network.scale_cost[new]
    return prices.second * time + prices.dollar * cost
