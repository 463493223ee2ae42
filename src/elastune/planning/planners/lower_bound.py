"""Lower bounds on the mean of the objective when latencies are random.

Both methods use a condition that every plan within its limit fulfils and that is a sum over stages. The best
plan under that condition is bounded by a price for what is limited and, if there are few stages or a minimum
charge counts, by the frontier of all labels. The larger of the two methods is the bound.

*Quantiles*: if the limit holds with probability c, the quantiles of the plan's k independent parts at
`1 - (1 - c)^(1/k)` sum to the limit or less: otherwise all parts would exceed theirs, and so together the
limit, with probability 1 - c. Good for few stages.

*Unlucky samples* (ours): of S samples at most (1 - c) S break the limit. Take any m samples: at least
m - (1 - c) S of them keep it, so their mean does, and a stage's share in that mean is no less than the mean
of its own m - (1 - c) S smallest values among the m. Good for many stages, and best if the m samples are the
worst ones of a plan near the optimum.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np

from elastune.model.billing import unused_each_s
from elastune.model.distributions import Array, is_constant
from elastune.model.limits import Objective, Outcome, quantile
from elastune.planning.planners.labels import Bounds, find_frontier
from elastune.planning.planners.network import (
    IntArray,
    Network,
    StagePrices,
    Weights,
    build_network,
    mean,
    relax,
)
from elastune.planning.problem import Case
from elastune.planning.stage_options import StageRuns, lower_options

# The m unlucky samples, as multiples of the (1 - c) S that may break the limit.
_UNLUCKY = (4,)
_FEW_STAGES = 5
# Of costs, stage by stage: the bound is lower by as much, and found sooner.
_ROUNDING = 1e-3
# The search for the best price: golden sections, and the least share of the limited quantity in the bound.
_GOLDEN = (3 - math.sqrt(5)) / 2
_SECTIONS = 8
_LEAST_SHARE = 1e-3
# On larger clusters minimum charges are left out of the bound.
_FEW_NODES = 64


def lower_bound(case: Case, found: Outcome) -> float:
    """No plan that keeps the limits has a smaller mean of the objective than this (up to sampling error).

    `found` is the outcome of a plan that keeps them: its mean caps the bound, its worst samples guide it.
    """
    deadline_matters = case.objective is Objective.COST
    limit = case.limits.deadline_s if deadline_matters else case.limits.budget_usd
    value = case.value(found)[0]
    case = _lower_case(case)
    if limit is None:
        return min(value, _best(case, Weights(boots_like_one=True), math.inf, value))
    samples = found.limited.jct_s if deadline_matters else found.limited.cost_usd
    # Each of the two is the better one in its range; the second one is tried for several counts.
    few_stages = len(case.options) <= _FEW_STAGES
    bounds = [_best(case, _quantiles(case), limit, value)] if few_stages else []
    breaking = math.floor((1 - case.limits.confidence) * samples.size * (1 + 1e-12))
    worst = np.argsort(samples, kind="stable")[::-1]
    counts = {min(factor * max(1, breaking), samples.size) for factor in _UNLUCKY}
    for count in sorted(counts):
        weights = _unlucky(case, worst[:count], count - breaking)
        bounds.append(_best(case, weights, limit, value))
    return min(value, max(bounds))


def _best(case: Case, weights: Weights, limit: float, value: float) -> float:
    network = build_network(case, replace(weights, every_count=case.max_nodes <= _FEW_NODES))
    if not network.has_all_levels:  # a minimum charge only adds cost, and without one all levels are there
        network = replace(network, minimum_charge_s=0.0, has_all_levels=True)
    by_cost = case.objective is Objective.COST
    priced, price = 0.0, 0.0
    if limit < math.inf:
        priced, price = _best_price(network, limit, value, case.objective)
        if len(case.options) > _FEW_STAGES and not _may_leave_early(network):
            return priced
    if by_cost:
        frontier = find_frontier(network, Bounds(time=limit, cost=value, usd_per_s=price), rounding=_ROUNDING)
        return max(priced, float(frontier.cost.min(initial=value)) / frontier.cost_factor)
    bounds = Bounds(time=value, cost=limit, usd_per_s=1 / price if price else 0.0)
    frontier = find_frontier(network, bounds)
    return max(priced, float(frontier.time.min(initial=value)) if frontier.cost_factor == 1.0 else 0.0)


def _may_leave_early(network: Network) -> bool:
    """Whether a node may be released before its minimum charge, which labels know and prices do not."""
    return any(unused_each_s(network, steps.duration_s).any() for steps in network.stages)


def _best_price(network: Network, limit: float, value: float, objective: Objective) -> tuple[float, float]:
    """The largest bound by a price for what is limited, and that price (Lagrange).

    For a plan by the deadline, cost + price * (time - deadline) is no more than its cost, and the least of
    cost + price * time is a shortest path. The bound is concave in the price. With many stages it is better
    than that of a frontier whose labels are rounded (2,048 trials: $918 instead of $909), and found sooner.
    """
    start = np.array([len(network.node_ages_s)])

    @functools.cache
    def bound(price: float) -> float:
        prices = StagePrices(price, 1.0) if objective is Objective.COST else StagePrices(1.0, price)
        return float(relax(network, prices).at(0, start)[0]) - price * limit

    price = value / limit
    factor = 2.0 if bound(2 * price) > bound(price) else 0.5
    while bound(price) < min(value, bound(price * factor)) and price * limit > _LEAST_SHARE * value:
        price *= factor
    low, high = price / 2, price * 2
    for _ in range(_SECTIONS):
        lower, upper = low + _GOLDEN * (high - low), high - _GOLDEN * (high - low)
        low, high = (lower, high) if bound(lower) < bound(upper) else (low, upper)
    return max((bound(each), each) for each in (0.0, price, (low + high) / 2))


def _quantiles(case: Case) -> Weights:
    cluster, stages = case.evaluator.workload.cluster, len(case.options)
    parts = stages * (1 + sum(not is_constant(latency) for latency in (cluster.queue, cluster.init)))
    level = 1 - (1 - case.limits.confidence) ** (1 / parts)
    if case.objective is Objective.COST:
        weigh = functools.partial(quantile, probability=level)
        return Weights(time=weigh, boots_like_one=True, limited=Objective.TIME)

    # A minimum charge includes a part of the cost of a node's time; above the mean it could count twice.
    def capped(samples: Array) -> float:
        return min(mean(samples), quantile(samples, level))

    return Weights(billed=capped, boots_like_one=True, limited=Objective.COST)


def _unlucky(case: Case, unlucky: IntArray, keeping: int) -> Weights:
    share = keeping / unlucky.size

    def smallest(samples: Array) -> float:
        return _mean_of_smallest(samples[unlucky], keeping)

    def boot(law: Array) -> float:
        """Boots have a known law instead of samples: the same share of it."""
        return _mean_of_smallest(law, math.floor(share * law.size))

    if case.objective is Objective.COST:
        return Weights(time=smallest, boot=boot, boots_like_one=True, limited=Objective.TIME)

    def capped(samples: Array) -> float:
        return min(mean(samples), smallest(samples))

    return Weights(billed=capped, boot=boot, boots_like_one=True, limited=Objective.COST)


def _mean_of_smallest(samples: Array, count: int) -> float:
    if count >= samples.size:
        return mean(samples)
    return mean(np.partition(samples, count)[:count]) if count else 0.0


def _lower_case(case: Case) -> Case:
    """The same with options that no division beats, in time or money, on any sample."""
    stages = range(len(case.options))
    options = tuple(lower_options(StageRuns(case.evaluator, stage), case.gang_sizes) for stage in stages)
    lower = replace(case, options=options, all_at_once=((),) * len(options))
    return lower.within(case.max_nodes)
