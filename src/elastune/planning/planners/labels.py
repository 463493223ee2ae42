"""The best paths through a network: label-setting with Pareto pruning of (time, cost).

A label is one way to reach a stage with a number of nodes held. Labels that another one beats in both time
and cost are dropped; what is left after the last stage is the whole cost-time frontier. The labels of a stage
are columns, extended and pruned together.

**Gangs.** If all trials have a gang of the same size, the next stage can go on with them and save their
start-up, on enough nodes. So a label also has the size of its gangs, and is dropped only for one whose gangs
have the same size and can stay on the same nodes: those of a label with more nodes may need more.

**Young nodes.** A node released before its minimum charge is paid costs the rest. It is charged in full at
launch and its first seconds are then free, so a label also carries, oldest first, how many nodes of which
age still have free seconds. Two consequences: a label is dropped only if another one is cheaper even if
those seconds are worth their full price to the first and nothing to the second; and releasing down to the
youngest launches is always one of the choices, because there the price of holding a node jumps.

**With too many labels** costs are rounded to a grid of ratio 1 + epsilon, which makes the result more
expensive by at most that factor per stage (`Frontier.cost_factor`). If even that does not help, free seconds
are ignored, too, and the factor is infinite.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from elastune.model.billing import charged_each_s, unused_each_s, unused_s
from elastune.model.distributions import Array
from elastune.placement.staying import nodes_to_stay
from elastune.planning.planners.network import (
    COST_ONLY,
    TIME_ONLY,
    IntArray,
    Network,
    StagePrices,
    StageSteps,
    relax,
)

MAX_LABELS = 100_000
FEW_LABELS = 20_000
# The labels of a stage, for each that is left after dropping those that are beaten.
EXTENDED_PER_LABEL = 20
COARSEST = 1e-2
ROWS_AT_ONCE = 500_000
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Paths beyond these are not needed."""

    time: float = math.inf
    cost: float = math.inf
    usd_per_s: float = 0.0
    """A price for time, to bound the sum of both as well: a path within both is within their sum."""


@dataclass(frozen=True, slots=True)
class LabelStep:
    nodes_held: int
    option: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Labels:
    """Columns; `young` and `free_s` have one more axis, the launches, oldest first."""

    time: Array
    cost: Array
    held: IntArray
    gang: IntArray
    young: IntArray
    free_s: Array
    parent: IntArray
    choice: IntArray

    def __len__(self) -> int:
        return self.time.size

    def value(self, node_usd_per_s: float) -> Array:
        """The cost, less the value of seconds already paid for if all of them are used."""
        value: Array = self.cost - node_usd_per_s * (self.young * self.free_s).sum(axis=1)
        return value

    def take(self, index: IntArray) -> _Labels:
        return _Labels(**{name: getattr(self, name)[index] for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The undominated paths, fastest first."""

    time: Array
    cost: Array
    cost_factor: float
    """The true frontier is cheaper by at most this factor; 1 means exact."""
    _trail: tuple[tuple[IntArray, IntArray, IntArray], ...]
    _network: Network

    def __len__(self) -> int:
        return self.time.size

    @property
    def slope(self) -> float:
        """Dollars that a second is worth near the slow end."""
        if not len(self):
            return 0.0
        last, first = len(self) - 1, max(0, len(self) - 9)
        seconds = float(self.time[last] - self.time[first])
        return float(self.cost[first] - self.cost[last]) / seconds if seconds > 0 else 0.0

    def path(self, index: int) -> tuple[LabelStep, ...]:
        steps: list[LabelStep] = []
        at = index
        stages = reversed(self._network.stages)
        for (parent, choice, held), stage in zip(reversed(self._trail), stages, strict=True):
            steps.append(LabelStep(int(held[at]), int(stage.option[choice[at]])))
            at = int(parent[at])
        return tuple(reversed(steps))


def find_frontier(network: Network, bounds: Bounds | None = None, *, rounding: float = 0.0) -> Frontier:
    """All undominated paths within the bounds; exact unless that takes more than `MAX_LABELS` labels.

    `rounding`: costs within this ratio are the same, stage by stage, which is faster.
    """
    epsilon = rounding
    while True:
        frontier = _find(network, bounds or Bounds(), epsilon, MAX_LABELS)
        if frontier is not None:
            return frontier
        epsilon = max(1e-3, epsilon * 10)


def find_small_frontier(network: Network, bounds: Bounds, *, rounding: float) -> Frontier | None:
    """As `find_frontier`, but None if that takes more than `FEW_LABELS` labels."""
    return _find(network, bounds, rounding, FEW_LABELS)


def _find(network: Network, bounds: Bounds, epsilon: float, most: int) -> Frontier | None:
    labels = _start(network)
    trail = []
    factor = (1 + epsilon) ** len(network.stages)
    limits = _StageLimits(network, replace(bounds, cost=bounds.cost * factor))
    for i, steps in enumerate(network.stages):
        labels = _extend(labels, steps, network, functools.partial(limits.within, i + 1))
        last = i + 1 == len(network.stages)
        # The coarsest rounding also ignores the value of free seconds; nothing is proven then.
        value = labels.cost if last or epsilon >= COARSEST else labels.value(network.node_usd_per_s)
        held = np.zeros_like(labels.held) if last else labels.held
        reuse = np.zeros_like(labels.gang) if last else _reuse(labels, network.stages[i + 1])
        if len(labels) > most * EXTENDED_PER_LABEL and epsilon < COARSEST:
            return None
        columns = (labels.time, labels.cost, value, held)
        labels = labels.take(_undominated(columns, reuse, network.waiting_usd_per_node, epsilon))
        if len(labels) > most and epsilon < COARSEST:
            return None
        trail.append((labels.parent, labels.choice, labels.held))
    return Frontier(
        time=labels.time,
        cost=labels.cost,
        cost_factor=math.inf if epsilon >= COARSEST else factor,
        _trail=tuple(trail),
        _network=network,
    )


class _StageLimits:
    """Which labels can still end within the bounds."""

    def __init__(self, network: Network, bounds: Bounds) -> None:
        self._bounds = bounds
        self._rate = network.node_usd_per_s
        self._fastest = relax(network, TIME_ONLY) if bounds.time < math.inf else None
        self._cheapest = relax(network, COST_ONLY) if bounds.cost < math.inf else None
        both = bounds.usd_per_s > 0 and self._fastest is not None and self._cheapest is not None
        self._priced = relax(network, StagePrices(bounds.usd_per_s, 1.0)) if both else None

    def within(self, stage: int, labels: _Labels) -> IntArray:
        keep = np.ones(len(labels), dtype=bool)
        if self._fastest is not None:
            latest = self._bounds.time * (1 + _ROUNDING)
            keep &= labels.time + self._fastest.at(stage, labels.held) <= latest
        if self._cheapest is not None:
            most_usd = self._bounds.cost * (1 + _ROUNDING)
            keep &= labels.value(self._rate) + self._cheapest.at(stage, labels.held) <= most_usd
        if self._priced is not None:
            price = self._bounds.usd_per_s
            most = (self._bounds.cost + price * self._bounds.time) * (1 + _ROUNDING)
            spent = labels.value(self._rate) + price * labels.time
            keep &= spent + self._priced.at(stage, labels.held) <= most
        return np.flatnonzero(keep)


def _start(network: Network) -> _Labels:
    """One label: no work done, the nodes at hand held, their age paid for."""
    young = [age for age in network.node_ages_s if network.bills_nodes and unused_s(network, age) > 0.0]
    ages, counts = np.unique(np.array(young, dtype=np.float64), return_counts=True)
    free_s = unused_each_s(network, ages)[::-1]
    return _Labels(
        time=np.zeros(1),
        cost=np.array([network.node_usd_per_s * float((free_s * counts[::-1]).sum())]),
        held=np.array([len(network.node_ages_s)]),
        gang=np.array([network.slots_now]),
        young=counts[::-1][None, :].astype(np.int64),
        free_s=free_s[None, :],
        parent=np.zeros(1, dtype=np.int64),
        choice=np.zeros(1, dtype=np.int64),
    )


def _extend(
    labels: _Labels, steps: StageSteps, network: Network, within: Callable[[_Labels], IntArray]
) -> _Labels:
    """Every label with every choice of the next stage, within the bounds."""
    parts = []
    for chosen, target, choice in _transitions(labels, steps, network):
        for start in range(0, max(1, chosen.size), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            part = _step(labels, chosen[rows], target[rows], choice[rows], (steps, network))
            parts.append(part.take(within(part)))
    return _concatenate(parts)


def _transitions(
    labels: _Labels, steps: StageSteps, network: Network
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Labels, the nodes with which they go on, and their choice."""
    count = steps.held.size
    chosen, choice = np.repeat(np.arange(len(labels)), count), np.tile(np.arange(count), len(labels))
    if steps.needs.any():
        fits = steps.keeps_gangs(
            steps.needs[choice], labels.gang[chosen], labels.held[chosen], steps.held[choice]
        )
        chosen, choice = chosen[fits], choice[fits]
    target = steps.held[choice]
    if not network.bills_nodes:
        # Idle nodes are free and never released: to hold fewer than before is the same as to stay.
        held = np.minimum(labels.held[chosen], network.max_nodes)
        sensible = np.flatnonzero((held <= target) | (steps.used[choice] == target))
        chosen, choice = chosen[sensible], choice[sensible]
        target = np.maximum(held, target)[sensible]
    yield chosen, target, choice
    if network.bills_nodes:
        for holding, kind in itertools.product(_holds(labels), steps.kinds):
            choice_of = steps.within(kind, holding)
            allowed = (choice_of >= 0) & (holding <= network.max_nodes)
            if kind.needs:
                needs = np.full_like(labels.gang, kind.needs)
                allowed &= steps.keeps_gangs(needs, labels.gang, labels.held, holding)
            some = np.flatnonzero(allowed & ~np.isin(holding, steps.held))
            yield some, holding[some], choice_of[some]


def _holds(labels: _Labels) -> Iterator[IntArray]:
    """Node counts worth holding because of those held: all, or only the youngest launches."""
    yield labels.held
    for launch in range(labels.young.shape[1]):
        youngest = labels.young[:, launch:].sum(axis=1)
        yield np.where(labels.young[:, launch] > 0, youngest, labels.held)


def _step(
    labels: _Labels, chosen: IntArray, target: IntArray, choice: IntArray, into: tuple[StageSteps, Network]
) -> _Labels:
    steps, network = into
    rate = network.node_usd_per_s
    before = labels.take(chosen)
    new = np.maximum(0, target - before.held)
    young = _release_oldest(before, before.held - target)
    kept = np.minimum(before.held, target)
    duration = steps.duration_s[choice]
    elapsed = duration + network.scale_s[new]
    paid_by_young = (young * np.maximum(0.0, elapsed[:, None] - before.free_s)).sum(axis=1)
    age = duration + network.init_s[new]
    cost = rate * ((kept - young.sum(axis=1)) * elapsed + paid_by_young + new * charged_each_s(network, age))
    free_s = np.maximum(0.0, before.free_s - elapsed[:, None])
    launched_free_s = np.where(new > 0, unused_each_s(network, age), 0.0) if rate else np.zeros(len(before))
    young = np.where(free_s > 0, young, 0)
    launched = np.where(launched_free_s > 0, new, 0)
    return _Labels(
        time=before.time + steps.time[choice] + network.scale_time[new],
        cost=before.cost + cost + steps.cost_at(choice, target) + network.scale_cost[new],
        held=target,
        gang=steps.gang[choice],
        young=np.column_stack([young, launched]),
        free_s=np.column_stack([free_s, launched_free_s]),
        parent=chosen,
        choice=choice,
    )


def _release_oldest(labels: _Labels, nodes: IntArray) -> IntArray:
    """Young nodes per launch that remain if `nodes` nodes are released, the mature ones first."""
    mature = labels.held - labels.young.sum(axis=1)
    going = np.maximum(0, nodes - mature)
    older = np.cumsum(labels.young, axis=1) - labels.young
    remaining: IntArray = labels.young - np.clip(going[:, None] - older, 0, labels.young)
    return remaining


def _concatenate(parts: list[_Labels]) -> _Labels:
    columns = {name: np.concatenate([getattr(p, name) for p in parts]) for name in _Labels.__slots__}
    labels = _Labels(**columns)
    alive = labels.young.any(axis=0)
    return replace(labels, young=labels.young[:, alive], free_s=labels.free_s[:, alive])


def _rounded(usd: Array, epsilon: float) -> Array:
    if not epsilon:
        return usd
    steps: Array = np.floor(np.log(np.maximum(usd, 1e-9)) / math.log1p(epsilon))
    return steps


def _reuse(labels: _Labels, steps: StageSteps) -> IntArray:
    """What the next stage needs to keep the gangs: their size, and the nodes on which all of them can stay,
    which are more after a stage on more nodes. 0: there are none."""
    nodes = np.asarray(nodes_to_stay(steps.trials, labels.held), dtype=np.int64)
    return np.where(labels.gang > 0, labels.gang * (1 + nodes.max(initial=0)) + nodes, 0)


def _undominated(
    labels: tuple[Array, Array, Array, IntArray], reuse: IntArray, waiting_usd_per_node: float, epsilon: float
) -> IntArray:
    """Indices of the labels (time, cost, value, held) that no other one with the same reuse replaces.

    Labels with gangs can do all that those without can.
    """
    kept = []
    for same in np.unique(reuse):
        some = np.flatnonzero(reuse == same) if same else np.arange(reuse.size)
        time, cost, value, held = labels
        part = (time[some], cost[some], value[some], held[some])
        survivors = some[_undominated_alike(part, waiting_usd_per_node, epsilon)]
        kept.append(survivors[reuse[survivors] == same])
    return np.concatenate(kept) if kept else np.empty(0, dtype=np.int64)


def _undominated_alike(
    labels: tuple[Array, Array, Array, IntArray], waiting_usd_per_node: float, epsilon: float
) -> IntArray:
    """The same without regard to gangs.

    The value of a label is its cost if its free seconds were worth their full price. A label with more nodes
    can release them for free, so it replaces one with fewer; unless more are launched next, when the surplus
    is billed while the request waits in the provider's queue.
    """
    time, cost, value, held = labels
    own_cost, own_value = (_rounded(usd, epsilon) for usd in (cost, value))
    order = np.lexsort((own_cost, time, -held))
    starts = np.flatnonzero(np.diff(held[order], prepend=held[order[:1]] + 1))
    kept = [np.empty(0, dtype=np.int64)]
    # Of the labels kept so far, all with more nodes: the least cost by time, with all their nodes waiting.
    richer_time, richer_cost = np.array([-np.inf]), np.array([np.inf])
    for group in np.split(order, starts[1:]):
        before = np.concatenate([[np.inf], np.minimum.accumulate(own_cost[group])[:-1]])
        richer = richer_cost[np.searchsorted(richer_time, time[group], side="right") - 1]
        richer = richer - waiting_usd_per_node * held[group]
        alone = before > own_value[group] + _ROUNDING * np.abs(own_value[group])
        survivors = group[alone & (richer > value[group] + _ROUNDING * np.abs(value[group]))]
        kept.append(survivors)
        waiting = cost[survivors] + waiting_usd_per_node * held[survivors]
        richer_time, richer_cost = _staircase(
            np.concatenate([richer_time, time[survivors]]), np.concatenate([richer_cost, waiting])
        )
    return np.concatenate(kept)


def _staircase(time: Array, cost: Array) -> tuple[Array, Array]:
    """The points that are cheaper than all faster ones, fastest first."""
    order = np.argsort(time, kind="stable")
    least = np.minimum.accumulate(cost[order])
    steps = np.concatenate([[0], 1 + np.flatnonzero(least[1:] < least[:-1])])
    return time[order][steps], least[steps]
