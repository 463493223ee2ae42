"""What rounds of training take and cost, how many gangs a cluster holds, how many nodes a budget pays for.

Policies by the clock (SEER and its baselines) divide what is left of time and money after boots, start-ups,
saves and whole nodes are paid for. Means are missed half of the time, so each latency that occurs once has a
margin. Money that rounding leaves over goes to the next best trials, then to slots for the best ones.

Where models hop, trials have no slots of their own: all of them take part in the rounds, and the more they
are, the fewer workers wait for a model. Only if there is no time for all, or no end of them, as many train at
once as there are workers, so that some are trained completely.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.hopping.partitions import useful_workers
from elastune.model.billing import bills_nodes, ingress_usd, node_rate, slot_rate, unused_s
from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Distribution
from elastune.model.profile import Profile, Speedup
from elastune.planning.prediction.plan import allocate

_CAUTION_SDS = 2.0
# A round is at least so many times as long as the move between two rounds.
_OVERHEADS = 4.0
# For an iteration that takes no time.
_LEAST_ROUND_S = 1e-3
_ROUNDING = 1e-9
# Where models hop: the most trials at once, by worker, of a search that does not know how many there are.
_TURNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCost:
    """Gangs of these sizes, largest first, for `seconds`, overheads included. `draws`: of new trials."""

    seconds: float
    gangs: tuple[int, ...]
    draws: bool = False


RoundTracks = tuple[tuple[RoundCost, ...], ...]
"""Tracks run side by side; in each, one round follows the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCosts:
    cluster: ClusterTerms
    profile: Profile
    save_s: float  # set aside for the last save

    @classmethod
    def of(cls, terms: RunTerms) -> RoundCosts:
        return cls(cluster=terms.cluster, profile=terms.profile, save_s=terms.save_allowance_s)

    @property
    def boot_s(self) -> float:
        return _cautious(self.cluster.queue) + _cautious(self.cluster.init)

    @property
    def start_s(self) -> float:
        return _cautious(self.profile.startup)

    @property
    def move_s(self) -> float:
        """A trial saves and starts again with other slots."""
        return _cautious(self.profile.save) + self.start_s + 2 * self.profile.transfer_s

    def shortest_round_s(self, slots: int) -> float:
        """In which every trial, also a slow one, finishes an iteration, and overheads are a small part."""
        iteration_s = _cautious(self.profile.iteration) / self.profile.speedup.at(slots)
        slow = 1.0 + _CAUTION_SDS * self.profile.spread
        return max(iteration_s * slow, _OVERHEADS * self.move_s, _LEAST_ROUND_S)

    def time_left_s(self, deadline_s: float, rounds: int) -> float:
        """For training in `rounds` rounds, one after the other."""
        return deadline_s - self.boot_s - self.start_s - (rounds - 1) * self.move_s - self.save_s

    def leg(self, number: int, seconds: float, gangs: tuple[int, ...], *, draws: bool = False) -> RoundCost:
        """Round 0, 1, 2, ... with `seconds` of training."""
        overhead_s = self.move_s if number else self.start_s
        return RoundCost(seconds=seconds + overhead_s, gangs=gangs, draws=draws)

    def nodes_for(self, gangs: Iterable[int]) -> int:
        """The fewest nodes that hold them without scattering a gang: largest first, each in its best fit."""
        per_node = self.cluster.slots_per_node
        nodes = 0
        spare: Counter[int] = Counter()  # nodes by their free slots
        for size, count in sorted(Counter(gangs).items(), reverse=True):
            if size > per_node:
                nodes += count * -(-size // per_node)
                continue
            left = count
            for free in sorted(free for free in spare if free >= size):
                left = _fill(spare, free, size, left, spare[free])
            fresh = -(-left // (per_node // size))
            nodes += fresh
            spare[per_node] += fresh
            _fill(spare, per_node, size, left, fresh)
        return nodes

    def nodes_needed(self, tracks: Sequence[Sequence[RoundCost]]) -> int:
        """The most that all tracks need at once."""
        return max((nodes for _, nodes, _ in self._intervals(tracks)), default=0)

    def nodes_held(self, tracks: Sequence[Sequence[RoundCost]]) -> int:
        """At the start; nodes of a later round are held until then, a fixed cluster always."""
        return self.cluster.max_nodes if self.cluster.fixed else self.nodes_needed(tracks)

    def price_usd(self, tracks: Sequence[Sequence[RoundCost]], *, booted: bool = False) -> float:
        """Rounds of one track follow each other, tracks run side by side; includes the last save."""
        intervals = self._intervals(tracks)
        if not intervals:
            return 0.0
        cluster = self.cluster
        if not bills_nodes(cluster):
            ends = [sum(leg.seconds for leg in track) for track in tracks if track]
            slots = [sum(track[-1].gangs) for track in tracks if track]
            last = slots[max(range(len(ends)), key=ends.__getitem__)]
            slot_s = sum(seconds * busy for seconds, _, busy in intervals) + last * self.save_s
            fresh = 0 if booted else self.nodes_held(tracks)
            return slot_s * slot_rate(cluster) + ingress_usd(cluster, fresh)
        held = [cluster.max_nodes if cluster.fixed else nodes for _, nodes, _ in intervals]
        for index in range(len(held) - 2, -1, -1):
            held[index] = max(held[index], held[index + 1])
        age_s = 0.0 if booted else _cautious(cluster.init)
        node_s = held[0] * age_s
        for index, (seconds, _, _) in enumerate(intervals):
            last = index == len(intervals) - 1
            lasting = seconds + (self.save_s if last else 0.0)
            age_s += lasting
            released = held[index] - (0 if last else held[index + 1])
            short_s = 0.0 if booted else unused_s(cluster, age_s)
            node_s += held[index] * lasting + released * short_s
        fresh = 0 if booted else held[0]
        return node_s * node_rate(cluster) + ingress_usd(cluster, fresh)

    def leg_usd(self, leg: RoundCost, *, shared: bool) -> float:
        """One round alone, on nodes that are up; if `shared` with other tracks it pays for its slots only."""
        cluster = self.cluster
        if shared or not bills_nodes(cluster):
            return leg.seconds * sum(leg.gangs) * cluster.slot_usd_per_s
        nodes = cluster.max_nodes if cluster.fixed else self.nodes_for(leg.gangs)
        return leg.seconds * nodes * node_rate(cluster)

    def seconds(self, tracks: Sequence[Sequence[RoundCost]]) -> float:
        """From the start of the first round to the end of the last."""
        return max((sum(leg.seconds for leg in track) for track in tracks), default=0.0)

    def _intervals(self, tracks: Sequence[Sequence[RoundCost]]) -> list[tuple[float, int, int]]:
        """(seconds, nodes, slots) between one round's end and the next."""
        if len(tracks) == 1:
            return [(leg.seconds, self.nodes_for(leg.gangs), sum(leg.gangs)) for leg in tracks[0]]
        ends = [list(zip(accumulate(leg.seconds for leg in track), track, strict=True)) for track in tracks]
        intervals, begin = [], 0.0
        for end in sorted({at_s for track in ends for at_s, _ in track}):
            running = [next((leg for at_s, leg in track if at_s >= end), None) for track in ends]
            gangs = [size for leg in running if leg is not None for size in leg.gangs]
            intervals.append((end - begin, self.nodes_for(gangs), sum(gangs)))
            begin = end
        return intervals


def _fill(spare: Counter[int], free: int, size: int, gangs: int, nodes: int) -> int:
    """Place gangs on at most `nodes` of the nodes with `free` free slots; returns how many are left over."""
    each = free // size
    full = min(nodes, gangs // each)
    spare[free] -= full
    spare[free - each * size] += full
    gangs -= full * each
    if gangs and full < nodes:
        spare[free] -= 1
        spare[free - gangs * size] += 1
        gangs = 0
    return gangs


@lru_cache(maxsize=256)  # a search for a plan asks a hundred thousand times for the same few
def _cautious(latency: Distribution) -> float:
    return latency.mean + _CAUTION_SDS * latency.sd


def affords(terms: RunTerms, tracks: Sequence[Sequence[RoundCost]]) -> bool:
    """Whether the cluster holds these rounds, and the budget pays for them."""
    tariff, budget = RoundCosts.of(terms), terms.limits.budget_usd
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


def money_for(state: State, tariff: RoundCosts, rest: Sequence[Sequence[RoundCost]]) -> float | None:
    """What is left for the coming rounds, less the minimum charges due when nodes are released."""
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


def widen(
    gangs: tuple[int, ...],
    nu: float,
    most: int,
    speedup: Speedup,
    fits: Callable[[tuple[int, ...]], bool],
) -> tuple[int, ...]:
    """More slots for the best, step by step up to `most`, where that makes them faster."""
    sizes = list(gangs)
    for place in range(len(sizes)):
        while (size := max(sizes[place] + 1, int(sizes[place] * nu))) <= most:
            wider = [*sizes[:place], size, *sizes[place + 1 :]]
            if speedup.at(size) <= speedup.at(sizes[place]) or not fits(tuple(wider)):
                break
            sizes = wider
    return tuple(sizes)


class Leftovers:
    """Whether the money left for a round pays for other gangs."""

    def __init__(self, legs: Sequence[RoundCost], state: State) -> None:
        self.tariff = RoundCosts.of(state.terms)
        self.limits = state.terms.gangs
        self.legs = legs
        self.state = state
        self.nodes = len(state.where)

    def joined(self, gangs: tuple[int, ...], extra: int) -> tuple[int, ...]:
        return gangs + (self.limits.min_slots,) * extra

    def widened(self, gangs: tuple[int, ...], nu: float) -> tuple[int, ...]:
        most = self.limits.max_slots or self.nodes * self.tariff.cluster.slots_per_node
        return widen(gangs, nu, most, self.tariff.profile.speedup, self.pays)

    def pays(self, gangs: tuple[int, ...]) -> bool:
        """Only on nodes that are up: new ones would have to boot."""
        if self.tariff.nodes_for(gangs) > self.nodes:
            return False
        legs = [replace(self.legs[0], gangs=gangs), *self.legs[1:]]
        left_usd = money_for(self.state, self.tariff, [legs])
        return left_usd is None or self.tariff.price_usd([legs], booted=True) <= left_usd


def gangs_on(nodes: int, slots: int, cluster: ClusterTerms) -> int:
    """Gangs of `slots` slots that fit without scattering a gang that fits a node."""
    if slots > cluster.slots_per_node:
        return nodes // -(-slots // cluster.slots_per_node)
    return nodes * (cluster.slots_per_node // slots)


def nodes_for(gangs: int, slots: int, cluster: ClusterTerms) -> int:
    return allocate(gangs=gangs, slots_per_trial=slots, slots_per_node=cluster.slots_per_node).nodes


def nodes_wanted(gangs: int, slots: int, cluster: ClusterTerms) -> int:
    """As `nodes_for`, but a fixed cluster stays whole until the end."""
    return cluster.max_nodes if cluster.fixed else nodes_for(gangs, slots, cluster)


def steady_nodes(state: State, *, iterations: int, stops: int = 1) -> int:
    """The nodes that the budget pays for until the deadline or, without one, until one trial is trained.

    On more nodes a small budget is spent on boots and minimum charges. `stops` is how often a trial is paused
    on its way through `iterations`.
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
    """`most`, or those that came if the provider or the guards refused the others."""
    pool = state.pool()
    return pool.coming if 0 < pool.coming < pool.wanted else most


def even_slots(nodes: int, trials: int, state: State) -> int:
    """The most slots per trial with which as many train at once as with the fewest."""
    gangs, cluster = state.terms.gangs, state.terms.cluster
    least = gangs.min_slots
    at_once = min(trials, gangs_on(nodes, least, cluster))
    most = min(gangs.max_slots or nodes * cluster.slots_per_node, nodes * cluster.slots_per_node)
    fitting = (size for size in range(most, least, -1) if gangs_on(nodes, size, cluster) >= at_once)
    return next(fitting, least)


def room_for_trials(state: State, nodes: int, slots: int, *, waiting: float, iterations: float) -> float:
    """The most trials that train at once on so many nodes.

    `waiting` are those that want to, now or later; `iterations` is what they all train, on average.
    """
    gangs = gangs_on(nodes, slots, state.terms.cluster)
    if state.terms.data is None:
        return gangs
    workers = workers_on(state, nodes)
    most = min(waiting, _TURNS * workers if math.isinf(waiting) else waiting)
    left_s = state.time_left_s
    needed_s = most * iterations * state.terms.profile.iteration.mean / workers
    has_time = left_s is None or needed_s <= left_s
    return max(most, workers) if has_time else workers


def workers_on(state: State, nodes: int) -> int:
    """Where models hop: the slots of so many nodes that hold data."""
    data, slots = state.data, max(1, nodes) * state.terms.cluster.slots_per_node
    return useful_workers(slots, data.partitions, data.replicas)


def nodes_for_trials(state: State, trials: int, slots: int, most: int) -> int:
    """The nodes on which so many trials train at once; where models hop, a worker for each, if there are
    enough of them."""
    data = state.terms.data
    if data is None:
        return nodes_wanted(trials, slots, state.terms.cluster)
    workers = min(trials, data.partitions * data.replicas)
    return min(most, nodes_wanted(workers, 1, state.terms.cluster))


def is_in_round(state: State) -> bool:
    """Whether models hop and a round is not over: what is decided now begins with the next one."""
    rounds = (pool_state.hop_state.round for pool_state in state.pools.values())
    return any(now is not None and not now.epoch.is_over for now in rounds)
