"""`static`: the best cluster of fixed size (RubberBand section 3.2), with any division in every stage.

Billed by instance, a cluster of one size costs the more the longer it is held, so of each size only the
fastest plan counts: a shortest path, because gangs that stay in the next stage save their start-up. Billed by
function, idle slots are free and a slower division may be cheaper: of each size the whole frontier counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from elastune.model.billing import bills_nodes, ingress_usd
from elastune.model.distributions import is_constant
from elastune.model.limits import ROUNDING, Limits, Objective
from elastune.planning.planners.labels import Bounds, Frontier, find_frontier
from elastune.planning.planners.network import Weights, build_network
from elastune.planning.prediction.plan import Plan, StagePlan
from elastune.planning.problem import Case, PlanSet, Solution, best_of
from elastune.planning.stage_options import StageOption

# Plans of one size, from its cheapest to its fastest, where more than one counts.
MOST_OF_A_SIZE = 24
_ROUNDED = 2e-4


def plan_static(case: Case) -> Solution | None:
    """In the middle of a run, at least the nodes that it has: a static cluster does not shrink when its plan
    is made again."""
    held = len(case.evaluator.workload.node_ages_s)
    return best_static(case, least=min(held, case.max_nodes))


def best_static(case: Case, *, least: int = 0) -> Solution | None:
    return best_of(case, _plans(case, least=least))


def static_plans(case: Case) -> PlanSet:
    """Plans of every size that a stage can use; sizes between those only cost more."""
    return PlanSet(tuple(_plans(replace(case, limits=Limits()))))


def _plans(case: Case, *, least: int = 0) -> Iterator[Plan]:
    for nodes in _sizes(case, least):
        if bills_nodes(case.evaluator.workload.cluster):
            fastest = static_plan(case, nodes)
            yield from () if fastest is None else (fastest,)
        else:
            yield from _frontier_plans(case, nodes)


def _sizes(case: Case, least: int) -> list[int]:
    cluster = case.evaluator.workload.cluster
    if cluster.fixed:
        return [case.max_nodes]
    used = (*case.options, *case.all_at_once)
    sizes = {max(least, option.allocation.nodes) for options in used for option in options}
    if not bills_nodes(cluster) and is_constant(cluster.init) and not ingress_usd(cluster, 1):
        return [max(sizes, default=1)]  # idle nodes are free
    return sorted(sizes)


class _Path(NamedTuple):
    """The fastest way through some stages that ends with gangs of one size."""

    seconds: float
    stages: tuple[StagePlan, ...]


def static_plan(case: Case, nodes: int) -> Plan | None:
    """The fastest plan on so many nodes."""
    paths = {0: _Path(0.0, ())}  # by the slots of gangs that the next stage may keep; 0: none
    for stage in range(len(case.options)):
        soonest = min(paths.values(), key=lambda path: path.seconds)
        following: dict[int, _Path] = {}
        for option in _choices(case, stage, nodes):
            planned = StagePlan(allocation=option.allocation, nodes_held=nodes)
            path = _Path(soonest.seconds + option.mean_s, (*soonest.stages, planned))
            before = paths.get(option.gang if stage else 0)
            if before is not None and option.kept is not None and _stays(case, stage, before, planned):
                kept = _Path(before.seconds + option.kept.mean_s, (*before.stages, planned))
                path = min(path, kept, key=lambda path: path.seconds)
            if option.gang not in following or path.seconds < following[option.gang].seconds:
                following[option.gang] = path
        if not following:
            return None
        paths = following
    return Plan(min(paths.values(), key=lambda path: path.seconds).stages)


def _choices(case: Case, stage: int, nodes: int) -> Iterator[StageOption]:
    """The fastest division, and every gang size with which all trials run at once."""
    fitting = [option for option in case.options[stage] if option.allocation.nodes <= nodes]
    if fitting:
        yield min(fitting, key=lambda option: option.mean_s)
    yield from (option for option in case.all_at_once[stage] if option.allocation.nodes <= nodes)


def _stays(case: Case, stage: int, before: _Path, planned: StagePlan) -> bool:
    earlier = before.stages[-1] if before.stages else None
    return case.evaluator.workload.keeps_gangs(stage, earlier, planned)


def _frontier_plans(case: Case, nodes: int) -> Iterator[Plan]:
    """Billed by function: the best of one size within the limits; if latencies are random, some of them."""
    share = case.within(nodes)
    if not all(share.options):
        return
    certain, limits = case.evaluator.workload.is_deterministic, case.limits
    bounds = Bounds(
        time=math.inf if limits.deadline_s is None else limits.deadline_s * (1 + ROUNDING),
        cost=math.inf if limits.budget_usd is None else limits.budget_usd * (1 + ROUNDING),
    )
    network = build_network(share, Weights(held=nodes))
    frontier = find_frontier(network, bounds, rounding=0.0 if certain else _ROUNDED)
    for index in _picked(frontier, case.objective, only_best=certain and limits.are_set):
        stages = enumerate(frontier.path(index))
        uses = [share.option(stage, step.option).allocation for stage, step in stages]
        yield Plan(tuple(StagePlan(allocation=use, nodes_held=nodes) for use in uses))


def _picked(frontier: Frontier, objective: Objective, *, only_best: bool) -> list[int]:
    values = frontier.cost if objective is Objective.COST else frontier.time
    order = [int(index) for index in np.argsort(values, kind="stable")]
    if only_best or len(order) <= 1:
        return order[:1]
    steps = min(MOST_OF_A_SIZE, len(order)) - 1
    return [order[round(i * (len(order) - 1) / steps)] for i in range(steps + 1)]
