"""How many gangs a cluster holds, and how many nodes can be paid for to the end."""

from __future__ import annotations

from elastune.cluster import ClusterTerms
from elastune.core import State


def gangs_on(nodes: int, slots: int, cluster: ClusterTerms) -> int:
    """Gangs of so many slots that fit without scattering any that fits a node."""
    if slots > cluster.slots_per_node:
        return nodes // -(-slots // cluster.slots_per_node)
    return nodes * (cluster.slots_per_node // slots)


def nodes_for(gangs: int, slots: int, cluster: ClusterTerms) -> int:
    if slots > cluster.slots_per_node:
        return gangs * -(-slots // cluster.slots_per_node)
    return -(-gangs // (cluster.slots_per_node // slots))


def nodes_wanted(gangs: int, slots: int, cluster: ClusterTerms) -> int:
    """Nodes for so many gangs; a fixed cluster stays whole until the end."""
    return cluster.max_nodes if cluster.fixed else nodes_for(gangs, slots, cluster)


def steady_nodes(state: State, *, iterations: int, stops: int = 1) -> int:
    """So many nodes that the budget lasts: until the deadline or, where there is none, until one trial has
    been trained to the end.

    On more of them a small budget goes into boots and minimum charges, and no trial gets far. `stops` is how
    often a trial is paused on its way through `iterations`.
    """
    terms = state.terms
    cluster, profile, slots = terms.cluster, terms.profile, terms.gangs.min_slots
    budget, deadline = state.limits.budget_usd, state.limits.deadline_s
    if budget is None or cluster.fixed:
        return cluster.max_nodes
    training_s = iterations * profile.iteration.mean / profile.speedup.at(slots)
    needed_s = cluster.init.mean + training_s + stops * (profile.startup.mean + profile.save.mean)
    lasting_s = needed_s if deadline is None else max(0.0, deadline - cluster.queue.mean)
    usd = state.ledger.node_usd(lasting_s)
    least = nodes_for(1, slots, cluster)
    return min(cluster.max_nodes, max(least, int(budget / usd))) if usd else cluster.max_nodes


def nodes_at_hand(state: State, most: int) -> int:
    """`most`, or as many as have come where the provider or the guards refused the others."""
    pool = state.pool()
    return pool.coming if 0 < pool.coming < pool.wanted else most


def even_slots(nodes: int, trials: int, state: State) -> int:
    """The most slots per trial with which as many train at once as with the fewest: sizes that do not fill a
    node would leave some of them waiting."""
    gangs, cluster = state.terms.gangs, state.terms.cluster
    least = gangs.min_slots
    at_once = min(trials, gangs_on(nodes, least, cluster))
    most = min(gangs.max_slots or nodes * cluster.slots_per_node, nodes * cluster.slots_per_node)
    fitting = (size for size in range(most, least, -1) if gangs_on(nodes, size, cluster) >= at_once)
    return next(fitting, least)
