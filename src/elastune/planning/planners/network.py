"""The plans of a case as paths: every stage is a step from the nodes held before to the nodes held in it.

Expected time and cost of a plan are sums over its stages that depend on the past only through the nodes
held (and, while a node is younger than the minimum charge, through its age). What is summed is a choice:
means, means with a margin for variance, or quantiles. `labels.py` finds the best paths for any of them.

Node counts worth holding: with all allocations fixed, the cost of a plan is linear in the nodes held through
a block of stages, up to the point where the block's level meets what one of its stages uses or the level
before or after it. So some optimal plan holds, in every stage, what it held before or exactly what this or a
later stage uses. This fails if nodes launched later may not live through their minimum charge: then every
number counts. (Young nodes launched before that add further points, see `labels.py`.)

`relax` bounds the rest of a plan, to drop labels before they are extended: the least time, the least cost or
the least of both at a price per second, from a stage on, is a shortest path over the nodes held. The minimum
charges of young nodes are left out, which can only make it smaller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elastune.model.billing import bills_nodes, ingress_usd, node_rate, unused_s
from elastune.model.distributions import Array, Distribution, is_constant
from elastune.model.limits import Objective
from elastune.placement.staying import nodes_to_stay
from elastune.planning.problem import Case
from elastune.planning.stage_options import StageOption

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Weigh = Callable[[Array], float]
"""Turns samples of a latency or a cost into the number that is summed along a path; scales with them."""

# Probabilities at which the law of the slowest node's INIT is tabulated.
_GRID = (np.arange(512) + 0.5) / 512


def mean(samples: Array) -> float:
    return float(samples.mean())


class StepKind(NamedTuple):
    """Rows of a kind differ only in the nodes held; a number between two of them uses the row below it."""

    needs: int
    """Only labels whose gangs have so many slots, and these go on; 0: any label, and gangs start anew."""
    size: int
    """The slots of a gang; 0: whichever is fastest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSteps:
    """The choices of one stage, as columns: hold `held` nodes and run option `option` on them."""

    held: IntArray
    option: IntArray
    used: IntArray
    duration_s: Array  # expected seconds, by which nodes age and are billed
    time: Array
    cost: Array  # beyond the cost of the nodes' time
    cost_per_node: Array  # the same for every node held
    needs: IntArray
    gang: IntArray  # slots of the gangs that the next stage may keep; 0: none
    kinds: Mapping[StepKind, IntArray]
    """The rows of each kind, by nodes held."""
    trials: int

    def keeps_gangs(self, needs: IntArray, gang: IntArray, before: IntArray, held: IntArray) -> BoolArray:
        """Where rows that need gangs find them, and the nodes held suffice for all of them to stay."""
        fits: BoolArray = (needs == 0) | ((needs == gang) & (held >= nodes_to_stay(self.trials, before)))
        return fits

    def cost_at(self, choice: IntArray, held: IntArray) -> Array:
        return self.cost[choice] + self.cost_per_node[choice] * held

    def within(self, kind: StepKind, nodes: IntArray) -> IntArray:
        """The row of a kind to run on `nodes` nodes billed by instance, -1 if there is none."""
        rows = self.kinds[kind]
        at = np.searchsorted(self.held[rows], nodes, side="right") - 1
        return np.where(at >= 0, rows[at], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """All steps, and the cost of `n` new nodes before a stage can start (index n of each table)."""

    stages: tuple[StageSteps, ...]
    scale_s: Array
    init_s: Array
    scale_time: Array
    scale_cost: Array
    node_usd_per_s: float
    minimum_charge_s: float
    node_ages_s: tuple[float, ...]
    slots_now: int
    max_nodes: int
    has_all_levels: bool
    """Whether an optimal path is certainly among these, if all latencies are constant."""

    @property
    def bills_nodes(self) -> bool:
        return self.node_usd_per_s > 0

    @property
    def waiting_usd_per_node(self) -> float:
        """What a node costs while others wait in the provider's queue."""
        return self.node_usd_per_s * float(self.scale_s[-1] - self.init_s[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What is summed along a path; means by default."""

    time: Weigh = mean  # of the seconds of a stage, and of provisioning unless `boot` is set
    billed: Weigh = mean  # of the seconds and dollars that are billed; nodes still age by the mean
    boot: Weigh | None = None  # of the seconds of provisioning, both as time and as billed
    cost_variance_price: float = 0.0  # dollars added per squared dollar of a stage's variance
    every_count: bool = True
    """Use all node counts if a minimum charge requires it; expensive, and needed only for proofs."""
    boots_like_one: bool = False
    """Any number of nodes boots like a single one: a lower bound, and the same for all plans."""
    held: int | None = None
    """So many nodes are held throughout; None: any number."""
    limited: Objective | None = None
    """What has to keep a limit, and so is weighed in the worst case of who survives; the rest on average."""

    def risk(self, samples: Array) -> float:
        """Of seconds or dollars, as if in dollars."""
        price = self.cost_variance_price
        return price * float(samples.var()) if price else 0.0


# With more node counts than this not all are used where a minimum charge breaks the rule about levels.
MOST_COUNTS = 300


def build_network(case: Case, weights: Weights | None = None) -> Network:
    """All plans of a case as paths, under the given weights."""
    weights = weights or Weights()
    workload = case.evaluator.workload
    cluster = workload.cluster
    by_stage, has_all_levels = _levels(case, MOST_COUNTS if weights.every_count else 0)
    if weights.held is not None:
        by_stage = [[weights.held] for _ in case.options]
    top = max((levels[-1] for levels in by_stage if levels), default=0)
    queue = _slowest(cluster.queue, 1)
    varied = 1 if is_constant(cluster.init) or weights.boots_like_one else top
    inits = [_slowest(cluster.init, count) for count in range(1, varied + 1)]

    def table(weigh: Weigh, *, queued: bool) -> Array:
        extra = weigh(queue) if queued else 0.0
        values = [weigh(init) + extra for init in inits]
        return np.array([0.0, *(values if varied == top else values * top)])

    billed, timed = weights.boot or weights.billed, weights.boot or weights.time
    return Network(
        stages=tuple(_steps(case, stage, levels, weights) for stage, levels in enumerate(by_stage)),
        scale_s=table(billed, queued=True),
        init_s=table(billed, queued=False),
        scale_time=table(timed, queued=True),
        scale_cost=np.arange(top + 1, dtype=np.float64) * ingress_usd(cluster, 1),
        node_usd_per_s=node_rate(cluster),
        minimum_charge_s=cluster.minimum_charge_s,
        node_ages_s=workload.node_ages_s,
        slots_now=workload.slots_now,
        max_nodes=case.max_nodes,
        has_all_levels=has_all_levels,
    )


def _levels(case: Case, most_counts: int) -> tuple[list[list[int]], bool]:
    """Node counts worth holding, stage by stage, and whether none is missing."""
    workload = case.evaluator.workload
    cluster = workload.cluster
    if cluster.fixed:
        return [[case.max_nodes] for _ in case.options], True
    needed: set[int] = set()
    levels: list[list[int]] = []
    every_count, complete = False, True
    for stage in reversed(range(len(case.options))):
        options = case.options[stage]
        needed |= {option.allocation.nodes for option in (*options, *case.all_at_once[stage])}
        if _kept_sizes(case, stage) and (trials := workload.stages[stage].trials) <= case.max_nodes:
            needed.add(trials)  # where gangs are kept, no more nodes than trials need be held
        follow_up = every_count and max(needed, default=0) <= most_counts
        complete &= follow_up or not every_count
        levels.append(list(range(1, max(needed) + 1)) if follow_up else sorted(needed))
        shortest = min((option.mean_s for option in options), default=0.0) + cluster.init.mean
        every_count |= bills_nodes(cluster) and unused_s(cluster, shortest) > 0.0
    return levels[::-1], complete


def _kept_sizes(case: Case, stage: int) -> set[int]:
    """The gang sizes that the stage before may hand on."""
    workload = case.evaluator.workload
    if not stage:
        return {workload.slots_now} - {0}
    falls = workload.stages[stage].trials <= workload.stages[stage - 1].trials
    return {option.gang for option in case.all_at_once[stage - 1]} if falls else set()


@dataclass(frozen=True, slots=True)
class _Choice:
    """An option of a stage from a number of nodes on; `index` is that of `Case.option`."""

    index: int
    option: StageOption
    least_nodes: int
    kind: StepKind


def _choices_of(case: Case, stage: int) -> Iterator[_Choice]:
    """All choices of a stage; of one kind, those with more nodes are faster."""
    by_instance = bills_nodes(case.evaluator.workload.cluster)
    for index, option in enumerate(case.options[stage]):
        nodes, slots = option.allocation.nodes, option.allocation.slots_per_trial
        yield _Choice(index, option, nodes, StepKind(0, 0 if by_instance else slots))
    kept_sizes = _kept_sizes(case, stage)
    for index, option in enumerate(case.all_at_once[stage], len(case.options[stage])):
        nodes = option.allocation.nodes
        yield _Choice(index, option, nodes, StepKind(0, option.gang))
        if option.kept is not None and option.gang in kept_sizes:
            yield _Choice(index, option.kept, nodes, StepKind(option.gang, option.gang))


def _steps(case: Case, stage: int, levels: list[int], weights: Weights) -> StageSteps:
    cluster = case.evaluator.workload.cluster
    by_instance, rate = bills_nodes(cluster), node_rate(cluster)
    by_kind: dict[StepKind, list[_Choice]] = defaultdict(list)
    for choice in _choices_of(case, stage):
        by_kind[choice.kind].append(choice)
    rows = []
    for kind, choices in by_kind.items():
        weighed = [_weigh(choice.option, weights, by_instance=by_instance) for choice in choices]
        for held in levels:
            # Of the choices that fit, the last is the fastest and, at the same gang size, no dearer.
            fitting = [i for i, choice in enumerate(choices) if choice.least_nodes <= held]
            for index in fitting[-1:]:
                option, of = choices[index].option, weighed[index]
                # By instance the price of the seconds themselves is added along the path.
                cost = (rate * held) ** 2 * of.risk if by_instance else of.risk + of.billed_usd
                surcharge = rate * (of.billed_s - of.mean_s)
                nodes, gang = option.allocation.nodes, option.gang
                of_option = (held, choices[index].index, nodes, of.mean_s, of.time, cost, surcharge)
                rows.append((*of_option, kind.needs, gang, kind))
    rows.sort(key=lambda row: row[0])
    kinds = {kind: np.array([i for i, row in enumerate(rows) if row[-1] == kind]) for kind in by_kind}
    columns = list(zip(*rows, strict=True)) if rows else [()] * 10
    whole = [np.array(columns[i], dtype=np.int64) for i in (0, 1, 2, 7, 8)]
    real = [np.array(columns[i], dtype=np.float64) for i in (3, 4, 5, 6)]
    return StageSteps(
        held=whole[0],
        option=whole[1],
        used=whole[2],
        duration_s=real[0],
        time=real[1],
        cost=real[2],
        cost_per_node=real[3],
        needs=whole[3],
        gang=whole[4],
        trials=case.evaluator.workload.stages[stage].trials,
        kinds={kind: found.astype(np.int64) for kind, found in kinds.items() if found.size},
    )


@dataclass(frozen=True, slots=True)
class _Weighed:
    """One option under the weights."""

    mean_s: float
    time: float
    billed_s: float
    billed_usd: float  # 0 billed by instance
    risk: float  # the price of the variance: by instance, of the seconds at a dollar per second


def _weigh(option: StageOption, weights: Weights, *, by_instance: bool) -> _Weighed:
    seconds, usd = option.seconds, option.function_usd
    timed = option.worst_seconds if weights.limited is Objective.TIME else seconds
    if weights.limited is Objective.COST:
        seconds, usd = option.worst_seconds, option.worst_function_usd
    return _Weighed(
        mean_s=option.mean_s,
        time=weights.time(timed),
        billed_s=weights.billed(seconds),
        billed_usd=0.0 if by_instance else weights.billed(usd),
        risk=weights.risk(seconds if by_instance else usd),
    )


def _slowest(latency: Distribution, nodes: int) -> Array:
    """The law of the slowest of `nodes` latencies, as equally likely values."""
    return latency.quantile(_GRID ** (1.0 / nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """The least from the start of each stage on, by the nodes held before it."""

    levels: tuple[IntArray, ...]
    rest: tuple[Array, ...]
    waiting_price: float  # what a surplus node may cost, once, while others are launched

    def at(self, stage: int, held: IntArray) -> Array:
        """Except for that price more nodes are no worse, so between two levels the higher one bounds."""
        levels = self.levels[stage]
        above = np.minimum(np.searchsorted(levels, held), levels.size - 1)
        surplus = np.maximum(0, levels[above] - held)
        rest: Array = self.rest[stage][above] - self.waiting_price * surplus
        return rest


@dataclass(frozen=True, slots=True)
class StagePrices:
    second: float
    dollar: float


TIME_ONLY, COST_ONLY = StagePrices(1.0, 0.0), StagePrices(0.0, 1.0)


def relax(network: Network, prices: StagePrices) -> Relaxation:
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
    """Nodes held next and choice (-1: none), a row for every number of nodes held before.

    Gangs are kept wherever that is possible, whatever the gangs before: a lower bound.
    """
    target = np.broadcast_to(steps.held, (held.size, steps.held.size))
    choice = np.broadcast_to(np.arange(steps.held.size), target.shape)
    if not network.bills_nodes:
        return np.minimum(np.maximum(target, held), network.max_nodes), choice
    stay = np.minimum(held, network.max_nodes)
    staying = [steps.within(kind, stay) for kind in steps.kinds]
    return np.column_stack([target, *[stay] * len(staying)]), np.column_stack([choice, *staying])


def _transitions(
    network: Network, steps: StageSteps, step: tuple[IntArray, IntArray, IntArray], prices: StagePrices
) -> Array:
    """The price of going from `held` to `target` nodes by a choice of the stage."""
    held, target, choice = step
    new = np.maximum(0, target - held)
    time: Array = steps.time[choice] + network.scale_time[new]
    if not prices.dollar:
        return prices.second * time
    node_s = (target - new) * network.scale_s[new] + new * network.init_s[new]
    node_s = node_s + target * steps.duration_s[choice]
    cost: Array = network.node_usd_per_s * node_s + steps.cost_at(choice, target) + network.scale_cost[new]
    return prices.second * time + prices.dollar * cost
