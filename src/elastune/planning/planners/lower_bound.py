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

import numpy as np

from elastune.model.distributions import Array, is_constant
from elastune.model.limits import Objective, Outcome, quantile
from elastune.planning.planners.labels import Bounds, find_frontier
from elastune.planning.planners.network import IntArray, Samples, Weights, build_network, mean
from elastune.planning.problem import Case, StageOption

# The m unlucky samples, as multiples of the (1 - c) S that may break the limit.
_UNLUCKY = (2, 4, 8)


def lower_bound(case: Case, found: Outcome) -> float:
    """No plan that keeps the limits has a smaller mean of the objective than this (up to sampling error).

    `found` is the outcome of a plan that keeps them: its mean caps the bound, its worst samples guide it.
    """
    deadline_matters = case.objective is Objective.COST
    limit = case.limits.deadline_s if deadline_matters else case.limits.budget_usd
    seconds = _lower_seconds(case)
    value = case.value(found)[0]
    if limit is None:
        return min(value, _best(case, Weights(seconds=seconds, boots_like_one=True), math.inf, value))
    samples = found.jct_s if deadline_matters else found.cost_usd
    bounds = [_best(case, _quantiles(case, seconds), limit, value)]
    breaking = math.floor((1 - case.limits.confidence) * samples.size * (1 + 1e-12))
    worst = np.argsort(samples, kind="stable")[::-1]
    counts = {min(factor * max(1, breaking), samples.size) for factor in _UNLUCKY}
    for count in sorted(counts | {samples.size}):
        weights = _unlucky(case, seconds, worst[:count], count - breaking)
        bounds.append(_best(case, weights, limit, value))
    return min(value, max(bounds))


def _best(case: Case, weights: Weights, limit: float, value: float) -> float:
    network = build_network(case, weights)
    if case.objective is Objective.COST:
        frontier = find_frontier(network, Bounds(time=limit, cost=value))
        bound = float(frontier.cost.min(initial=value)) / frontier.cost_factor
        return bound if network.has_all_levels else 0.0
    frontier = find_frontier(network, Bounds(time=value, cost=limit))
    exact = frontier.cost_factor == 1.0 and network.has_all_levels
    return float(frontier.time.min(initial=value)) if exact else 0.0


def _quantiles(case: Case, seconds: Samples) -> Weights:
    cluster, stages = case.evaluator.workload.cluster, len(case.options)
    parts = stages * (1 + sum(not is_constant(latency) for latency in (cluster.queue, cluster.init)))
    level = 1 - (1 - case.limits.confidence) ** (1 / parts)
    if case.objective is Objective.COST:
        weigh = functools.partial(quantile, probability=level)
        return Weights(time=weigh, seconds=seconds, boots_like_one=True)

    # A minimum charge includes a part of the cost of a node's time; above the mean it could count twice.
    def capped(samples: Array) -> float:
        return min(mean(samples), quantile(samples, level))

    return Weights(billed=capped, seconds=seconds, boots_like_one=True)


def _unlucky(case: Case, seconds: Samples, unlucky: IntArray, keeping: int) -> Weights:
    share = keeping / unlucky.size

    def smallest(samples: Array) -> float:
        return _mean_of_smallest(samples[unlucky], keeping)

    def boot(law: Array) -> float:
        """Boots have a known law instead of samples: the same share of it."""
        return _mean_of_smallest(law, math.floor(share * law.size))

    if case.objective is Objective.COST:
        return Weights(time=smallest, boot=boot, seconds=seconds, boots_like_one=True)

    def capped(samples: Array) -> float:
        return min(mean(samples), smallest(samples))

    return Weights(billed=capped, boot=boot, seconds=seconds, boots_like_one=True)


def _mean_of_smallest(samples: Array, count: int) -> float:
    if count >= samples.size:
        return mean(samples)
    return mean(np.partition(samples, count)[:count]) if count else 0.0


def _lower_seconds(case: Case) -> Samples:
    """Lower bounds by sample: a queue ends no sooner than its mean load or its longest trial."""
    evaluator = case.evaluator

    @functools.cache
    def seconds(stage: int, option: StageOption) -> Array:
        use = option.allocation
        hops = evaluator.workload.hopping is not None
        if hops or use.gangs == evaluator.workload.stages[stage].trials:
            return option.seconds
        longest = evaluator.longest_trial_s(stage, use.slots_per_trial)
        load = evaluator.busy_slot_s(stage, use) / use.slots
        return np.asarray(np.maximum(load, longest) + evaluator.draws.sync_s(stage))

    return seconds
