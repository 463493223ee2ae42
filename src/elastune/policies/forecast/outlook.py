"""What a run of `forecast` can spend, and how far its winner can get: time and money as slots and iterations.

The time has two parts. In the first, 25 % of it, many trials train a little on the fewest slots, for 60 % of
the money; in the second the best of them train on, on more slots each. Where slots cost nothing (a fixed
cluster, or no budget) all of them are used all the time. Boots come off the time; start-ups and saves make
the first rung longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from elastune.core.state import State
from elastune.model.billing import bills_nodes
from elastune.policies.costs import nodes_at_hand, nodes_for

# Without a deadline: a run of W iterations takes the time of so many times the square root of W.
_LENGTH = 2.0
_MOST_ITERATIONS = 10**9
# Nodes are added if their boot takes at most this part of the time left.
_LONGEST_BOOT = 0.1
_LEAST_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The constants of `forecast`, chosen on three tables of learning curves and the synthetic function
    (docs/policies.md)."""

    exploring_time: float = 0.25
    """Share of the time for the first part."""
    exploring_money: float = 0.6
    """Share of the money for the first part."""
    exploring_share: float = 0.5
    """In the first part, of the trials compared, the best deserves this part in iterations of the first
    rung."""
    sharpness: float = 2.5
    """How steeply shares fall with the rank; 1 leaves too little for the best where money is short."""
    least_efficiency: float = 0.7
    """A gang of the winner is no wider than with this part of the efficiency of the smallest."""
    most_rungs: float = 1024.0
    """The longest training has at most so many times the iterations of the first rung."""


USUAL = Shape()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    begin_s: float
    """When the first nodes are up."""
    switch_s: float
    """The end of the first part."""
    end_s: float
    """When the last leases end. Without a deadline: when the money is likely to be spent."""
    is_paid: bool
    """Whether a budget limits the slots."""
    most_slots: int
    iteration_s: float
    """On the fewest slots."""
    sizes: tuple[int, ...]
    """Slots that a gang may have, ascending."""
    goal: int
    """Iterations that the winner can reach."""
    first: int
    """The first rung."""
    exploring_nodes: int
    """Nodes in the first part; if slots are billed: the most."""

    stop_s: float
    """A save and a start."""
    shape: Shape = USUAL

    @property
    def least_slots(self) -> int:
        return self.sizes[0]

    @property
    def turn_s(self) -> float:
        """The longest lease of the second part."""
        return (self.end_s - self.begin_s) / 12

    def left_s(self, state: State) -> float:
        """Without a deadline, time does not run out while there is money."""
        left_s = self.end_s - state.now_s
        return max(0.0, left_s) if state.limits.deadline_s is not None else max(left_s, self.turn_s)

    def iteration_on_s(self, slots: int, state: State) -> float:
        speedup = state.terms.profile.speedup
        return self.iteration_s * speedup.at(self.least_slots) / speedup.at(slots)

    def buys_slots(self, state: State) -> bool:
        """Whether each slot at work costs money that is limited, and no other does."""
        return self.is_paid and not bills_nodes(state.terms.cluster)

    def buys_nodes(self, state: State) -> bool:
        """Whether each node costs money that is limited, unless it is released."""
        return self.is_paid and bills_nodes(state.terms.cluster) and not state.terms.cluster.fixed

    def work_left(self, state: State) -> float:
        """Iterations on the fewest slots, for the time and the money left."""
        slot_s = self.most_slots * self.left_s(state)
        left_usd = state.money_left_usd
        if self.is_paid and left_usd is not None:
            slot_s = min(slot_s, max(0.0, left_usd) / state.terms.cluster.slot_usd_per_s)
        return slot_s / (self.least_slots * self.iteration_s)

    def exploring_usd(self, state: State) -> float:
        """What may be spent by now, less what was; without end unless slots are bought one by one."""
        budget, left_usd = state.limits.budget_usd, state.money_left_usd
        if not self.buys_slots(state) or budget is None or left_usd is None:
            return math.inf
        lasting_s = self.switch_s - self.begin_s
        passed_s = max(0.0, state.now_s - self.begin_s) + max(self.iteration_s, lasting_s / 12)
        return self.shape.exploring_money * budget * min(1.0, passed_s / lasting_s) - (budget - left_usd)

    def nodes_paid(self, state: State) -> int:
        """Nodes that may be used in the second part: those there are, and more if the money lasts."""
        cluster, coming = state.terms.cluster, state.pool().coming
        most = nodes_at_hand(state, cluster.max_nodes)
        if not self.buys_nodes(state) or most < cluster.max_nodes:
            return most
        left_s, more = self.left_s(state), 0
        if self.begin_s <= _LONGEST_BOOT * left_s:
            spare_usd = (state.money_left_usd or 0.0) - state.ledger.burn_usd_per_s * left_s
            more = max(0, int(spare_usd / state.ledger.node_usd(left_s)))
        least = nodes_for(1, self.least_slots, cluster)
        return min(cluster.max_nodes, max(coming + more, least))

    def prepaid_nodes(self, state: State) -> int:
        """Nodes whose minimum charge pays for more than their life so far."""
        if not self.buys_nodes(state):
            return 0
        least_s = state.terms.cluster.minimum_charge_s
        return sum(state.now_s - node.born_s < least_s and not node.leaving for node in state.where.values())


def look_ahead(state: State, *, trials: float, least: int, most: int | None, shape: Shape = USUAL) -> Outlook:
    """`trials` that may be drawn; `least` and `most` iterations of a trial."""
    terms = state.terms
    cluster, profile, gangs = terms.cluster, terms.profile, terms.gangs
    budget, slot_usd_s = state.limits.budget_usd, cluster.slot_usd_per_s
    is_paid = budget is not None and slot_usd_s > 0.0
    slot_s = budget / slot_usd_s if budget is not None and is_paid else math.inf
    most_slots = cluster.max_nodes * cluster.slots_per_node
    iteration_s = max(
        _LEAST_S, _slowdown(state) * profile.iteration.mean / profile.speedup.at(gangs.min_slots)
    )
    begin_s = cluster.queue.mean + cluster.init.mean
    if state.limits.deadline_s is not None:
        lasting_s = state.limits.deadline_s - terms.winding_up_s - begin_s
    else:
        iterations = slot_s / (gangs.min_slots * iteration_s)
        lasting_s = iteration_s * _usual_length(
            iterations, trials, most, most_slots // gangs.min_slots, shape
        )
    if is_paid and cluster.fixed and bills_nodes(cluster):
        lasting_s = min(lasting_s, slot_s / most_slots - begin_s)
    lasting_s = max(lasting_s, _LEAST_S)
    end_s, switch_s = begin_s + lasting_s, begin_s + shape.exploring_time * lasting_s
    sizes = _sizes(state, min(most_slots, slot_s / lasting_s), shape)
    speed = profile.speedup.at(sizes[-1]) / profile.speedup.at(sizes[0]) / iteration_s
    goal = max(1, min(most or _MOST_ITERATIONS, int(speed * (end_s - switch_s))))
    stop_s = profile.startup.mean + profile.save.mean + 2 * profile.transfer_s
    first = max(least, math.ceil(stop_s / iteration_s), math.ceil(goal / shape.most_rungs))
    return Outlook(
        begin_s=begin_s,
        switch_s=switch_s,
        end_s=end_s,
        is_paid=is_paid,
        most_slots=most_slots,
        iteration_s=iteration_s,
        sizes=sizes,
        goal=goal,
        first=min(first, max(least, goal)),
        exploring_nodes=_exploring_nodes(state, switch_s, shape) if is_paid else cluster.max_nodes,
        stop_s=stop_s,
        shape=shape,
    )


def _slowdown(state: State) -> float:
    """How much longer iterations take than the profile says; 1 if nothing has trained yet."""
    profile, seconds, expected_s = state.terms.profile, 0.0, 0.0
    for (_, slots), tally in state.observed_speed.training.items():
        seconds += tally.seconds
        expected_s += tally.count * profile.iteration.mean / profile.speedup.at(slots)
    return seconds / expected_s if seconds and expected_s else 1.0


def _usual_length(iterations: float, trials: float, most: int | None, at_once: int, shape: Shape) -> float:
    """Without a deadline: the time of so many iterations, one after the other.

    The winner trains to its last iteration in the second part, or the time and the number of trials at once
    are balanced. Not less than all slots need for the money, or for all trials.
    """
    if math.isinf(iterations):
        each = most or 1
        return each * max(1.0, (1.0 if math.isinf(trials) else trials) / at_once)
    length = _LENGTH * math.sqrt(iterations) if most is None else most / (1.0 - shape.exploring_time)
    return max(1.0, length, iterations / at_once)


def _sizes(state: State, slots: float, shape: Shape) -> tuple[int, ...]:
    """From the fewest slots to the widest gang that is efficient enough; parts of a node or whole nodes."""
    gangs, speedup = state.terms.gangs, state.terms.profile.speedup
    least, per_node = gangs.min_slots, state.terms.cluster.slots_per_node
    most = min(gangs.max_slots or math.inf, slots, speedup.largest)
    efficiency = shape.least_efficiency * speedup.at(least) / least
    sizes = [least]
    if state.terms.data is None:  # where models hop, gangs are the core's
        for size in range(least + 1, int(most) + 1):
            fits = per_node % size == 0 if size < per_node else size % per_node == 0
            if fits and speedup.at(size) >= efficiency * size and speedup.at(size) > speedup.at(sizes[-1]):
                sizes.append(size)
    return tuple(sizes)


def _exploring_nodes(state: State, switch_s: float, shape: Shape) -> int:
    """Those that the first part's money pays for, with their boots; any number if slots are billed."""
    cluster, budget = state.terms.cluster, state.limits.budget_usd or 0.0
    if cluster.fixed or not bills_nodes(cluster):
        return cluster.max_nodes
    usd = state.ledger.node_usd(switch_s - cluster.queue.mean)
    least = nodes_for(1, state.terms.gangs.min_slots, cluster)
    return min(cluster.max_nodes, max(least, int(shape.exploring_money * budget / usd)))
