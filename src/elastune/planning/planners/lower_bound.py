"""Lower bounds on the mean of the objective when latencies are random.

Both methods use a condition that every plan within its limit fulfils and that is a sum over stages; the best
plan under that condition is found exactly. The larger of the two is the bound.

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

from elastune.model.distributions import Array, is_constant
from elastune.model.limits import Objective, Outcome, quantile
from elastune.planning.planners.labels import Bounds, find_frontier
from elastune.planning.planners.network import IntArray, Weights, build_network, mean
from elastune.planning.problem import Case
from elastune.planning.stage_options import StageRuns, lower_options

# The m unlucky samples, as multiples of the (1 - c) S that may break the limit.
_UNLUCKY = (4,)
_FEW_STAGES = 5
# Of costs, stage by stage: the bound is lower by as much, and found sooner.
_ROUNDING = 1e-3
_ROUGH = 5e-3
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
    if case.objective is Objective.COST:
        bounds = Bounds(time=limit, cost=value)
        if limit < math.inf:  # what a second is worth, roughly, prunes most of the labels of a finer search
            bounds = replace(bounds, usd_per_s=find_frontier(network, bounds, rounding=_ROUGH).slope)
        frontier = find_frontier(network, bounds, rounding=_ROUNDING)
        bound = float(frontier.cost.min(initial=value)) / frontier.cost_factor
        return bound if network.has_all_levels else 0.0
    frontier = find_frontier(network, Bounds(time=value, cost=limit))
    exact = frontier.cost_factor == 1.0 and network.has_all_levels
    return float(frontier.time.min(initial=value)) if exact else 0.0


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
