"""The plans of a case as paths: every stage is a step from the nodes held before to the nodes held in it.

Expected time and cost of a plan are sums over its stages that depend on the past only through the nodes
held (and, while a node is younger than the minimum charge, through its age). What is summed is a choice:
means, means with a margin for variance, or quantiles. `labels.py` finds the best paths for any of them.

Which node counts need to be held at all: while all choices of allocations stay, the cost of a plan is
linear in the nodes held through a block of stages, up to the point where the block's level meets what one of
its stages uses or the level before or after it. So some optimal plan holds, in every stage, what it held
before or exactly what this or a later stage uses. (With young nodes there are more such points; `labels.py`
adds them.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elastune.cluster import Billing
from elastune.planning.case import Case, StageOption
from elastune.profiles.distributions import Array, Distribution, is_constant

IntArray = npt.NDArray[np.int64]
Weigh = Callable[[Array], float]
"""Turns samples of a latency or a cost into the number that is summed along a path."""

# Probabilities at which the law of the slowest node's INIT is tabulated.
_GRID = (np.arange(512) + 0.5) / 512


def mean(samples: Array) -> float:
    return float(samples.mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSteps:
    """The choices of one stage, as columns: hold `held` nodes and run option `option` on them."""

    held: IntArray
    option: IntArray
    used: IntArray
    duration_s: Array
    """Expected seconds; what nodes age and are billed by."""
    time: Array
    cost: Array
    """What is paid beyond the nodes' time."""

    def fastest_within(self, nodes: IntArray) -> IntArray:
        """The choice to run on so many nodes billed by instance, -1 where the stage does not fit."""
        return np.searchsorted(self.held, nodes, side="right") - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """All steps, and what `n` new nodes take before a stage can start (index n of each table)."""

    stages: tuple[StageSteps, ...]
    scale_s: Array
    init_s: Array
    scale_time: Array
    scale_cost: Array
    node_usd_per_s: float
    minimum_charge_s: float
    node_ages_s: tuple[float, ...]

    @property
    def bills_nodes(self) -> bool:
        return self.node_usd_per_s > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What is summed along a path; means where nothing else is said."""

    time: Weigh = mean
    """Of the seconds of a stage or of provisioning."""
    time_samples: Callable[[int, StageOption], Array] | None = None
    """Replaces the samples that `time` sees of a stage."""
    cost: Weigh | None = None
    """Of the dollars of a stage."""
    seconds: Callable[[int, StageOption], Array] | None = None
    """Replaces the samples of a stage everywhere (by a lower bound, say)."""
    billed: Weigh = mean
    """Of the seconds for which nodes are billed while others come up."""


def build_network(case: Case, weights: Weights | None = None) -> Network:
    """All plans of a case as paths, under the given weights."""
    weights = weights or Weights()
    workload = case.evaluator.workload
    cluster = workload.cluster
    steps = []
    needed: set[int] = {case.max_nodes} if cluster.fixed else set()
    for stage in reversed(range(len(case.options))):
        if not cluster.fixed:
            needed |= {option.allocation.nodes for option in case.options[stage]}
        steps.append(_steps(case, stage, sorted(needed), weights))
    top = max(needed, default=0)
    queue = _slowest(cluster.queue, 1)
    varied = 1 if is_constant(cluster.init) else top
    inits = [_slowest(cluster.init, count) for count in range(1, varied + 1)]
    count = np.arange(top + 1, dtype=np.float64)

    def table(weigh: Weigh, extra: float) -> Array:
        values = [weigh(init) + extra for init in inits]
        return np.array([0.0, *(values if varied == top else values * top)])

    return Network(
        stages=tuple(reversed(steps)),
        scale_s=table(weights.billed, weights.billed(queue)),
        init_s=table(weights.billed, 0.0),
        scale_time=table(weights.time, weights.time(queue)),
        scale_cost=count * cluster.data_usd_per_node,
        node_usd_per_s=cluster.node_usd_per_s if cluster.billing is Billing.INSTANCE else 0.0,
        minimum_charge_s=cluster.minimum_charge_s,
        node_ages_s=workload.node_ages_s,
    )


def _steps(case: Case, stage: int, levels: list[int], weights: Weights) -> StageSteps:
    by_instance = case.evaluator.workload.cluster.billing is Billing.INSTANCE
    options = case.options[stage]
    rows = []

    @functools.cache
    def weighed(index: int) -> tuple[Array, float, float]:
        option = options[index]
        seconds = weights.seconds(stage, option) if weights.seconds else option.seconds
        timed = weights.time_samples(stage, option) if weights.time_samples else seconds
        return seconds, mean(seconds), weights.time(timed)

    for held in levels:
        fitting = [index for index, option in enumerate(options) if option.allocation.nodes <= held]
        if (
            by_instance
        ):  # the nodes are paid for, so the fastest is the cheapest; options get faster with nodes
            fitting = fitting[-1:]
        for index in fitting:
            seconds, duration_s, time = weighed(index)
            cost = mean(options[index].function_usd)
            if weights.cost is not None:
                rate = held * case.evaluator.workload.cluster.node_usd_per_s
                usd = rate * seconds if by_instance else options[index].function_usd
                cost += weights.cost(usd) - mean(usd)
            rows.append((held, index, options[index].allocation.nodes, duration_s, time, cost))
    held_, index_, used, duration, times, costs = zip(*rows, strict=True) if rows else ((),) * 6
    return StageSteps(
        held=np.array(held_, dtype=np.int64),
        option=np.array(index_, dtype=np.int64),
        used=np.array(used, dtype=np.int64),
        duration_s=np.array(duration, dtype=np.float64),
        time=np.array(times, dtype=np.float64),
        cost=np.array(costs, dtype=np.float64),
    )


def _slowest(latency: Distribution, nodes: int) -> Array:
    """The law of the slowest of `nodes` latencies, as equally likely values."""
    return latency.quantile(_GRID ** (1.0 / nodes))
