"""How good the rest of a plan can be at best: bounds that let labels be dropped before they are extended.

The least time, or the least cost, from a stage on is a plain shortest path over the nodes held. The minimum
charges of young nodes are left out, which can only make it smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastune.planning.network import IntArray, Network, StageSteps
from elastune.planning.problem import Objective
from elastune.profiles.distributions import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """The least time or cost from the start of each stage on, by the nodes held before it."""

    levels: tuple[IntArray, ...]
    rest: tuple[Array, ...]

    def at(self, stage: int, held: IntArray) -> Array:
        """More nodes are never worse (they can be released), so between two levels the higher one bounds."""
        above = np.searchsorted(self.levels[stage], held)
        return self.rest[stage][np.minimum(above, self.levels[stage].size - 1)]


def relax(network: Network, objective: Objective) -> Relaxation:
    """Shortest paths backwards from the end."""
    reachable = [np.array([len(network.node_ages_s)]), *(steps.held for steps in network.stages)]
    levels = [np.unique(np.concatenate(reachable[: i + 1])) for i in range(len(reachable))]
    rest = [np.zeros(levels[-1].size)]
    for stage in reversed(range(len(network.stages))):
        steps, held = network.stages[stage], levels[stage][:, None]
        target, choice = _choices(network, steps, held)
        totals = _transitions(network, steps, (held, target, choice), objective)
        totals += rest[-1][np.searchsorted(levels[stage + 1], target)]
        rest.append(np.where(choice >= 0, totals, np.inf).min(axis=1))
    return Relaxation(levels=tuple(levels), rest=tuple(reversed(rest)))


def _choices(network: Network, steps: StageSteps, held: IntArray) -> tuple[IntArray, IntArray]:
    """Nodes held next and choice (-1: none), one row for every number of nodes held before."""
    target = np.broadcast_to(steps.held, (held.size, steps.held.size))
    choice = np.broadcast_to(np.arange(steps.held.size), target.shape)
    if not network.bills_nodes:
        return np.maximum(target, held), choice
    return np.column_stack([target, held]), np.column_stack([choice, steps.fastest_within(held)])


def _transitions(
    network: Network, steps: StageSteps, step: tuple[IntArray, IntArray, IntArray], objective: Objective
) -> Array:
    """Time or cost of going from `held` to `target` nodes by a choice of the stage."""
    held, target, choice = step
    new = np.maximum(0, target - held)
    if objective is Objective.TIME:
        time: Array = steps.time[choice] + network.scale_time[new]
        return time
    node_s = (target - new) * network.scale_s[new] + new * network.init_s[new]
    node_s = node_s + target * steps.duration_s[choice]
    cost: Array = network.node_usd_per_s * node_s + steps.cost[choice] + network.scale_cost[new]
    return cost
