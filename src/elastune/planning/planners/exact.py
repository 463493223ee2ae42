"""`exact`: the cheapest plan for a deadline, or the fastest for a budget, with what is proven about it.

*Constant latencies*: the frontier of `labels.py` is exact and its best point within the limits is optimal. If
labels had to be rounded it may not be, and is improved by local search, beside the plan of greedy.

*Random latencies*: a limit has to hold at a confidence, which is not a sum over stages. With mean m and
variance v of the limited quantity the limit L holds if `m + z sqrt(v) <= L`, nearly (a sum of independent
stages is nearly normal), and for every s > 0 `z sqrt(v) <= z v / (2 s) + z s / 2` with equality at
s = sqrt(v). So `m + z v / (2 s) <= L - z s / 2`, a sum again, admits no plan that breaks the limit and all
that have the standard deviation s. The frontier is found for this sum, s set to the standard deviation of
the resulting plan, and so on until s converges. Labels stay two numbers, where (mean, variance, cost) would
be three. The plans near the limit are then tried on all samples, in order of the objective. The best that
keeps all limits is improved by local search, because means miss that the mean of a minimum charge is not the
charge of the mean age. `lower_bound.py` bounds the distance to the optimum.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from elastune.model.billing import bills_nodes
from elastune.model.distributions import Array
from elastune.model.limits import ROUNDING, Objective, quantile
from elastune.planning.planners.baselines import naive_elastic_plans, plan_greedy
from elastune.planning.planners.labels import Bounds, Frontier, find_frontier, find_small_frontier
from elastune.planning.planners.lower_bound import lower_bound
from elastune.planning.planners.network import Network, Weights, build_network, mean
from elastune.planning.planners.static import static_plans
from elastune.planning.prediction.plan import Plan, StagePlan
from elastune.planning.problem import Case, PlanSet, Solution, best_of, better_of

MAX_SWEEPS = 4
# How far beyond the limit, by the normal approximation, a plan is still tried on the samples.
SLACK = 0.03
MAX_TRIED = 2_000
# Candidates that are tried on samples need not tell such small differences in cost apart.
ROUNDED = 2e-4
COARSE = 2e-3
MAX_ROUNDS = 6


def local_search(case: Case, solution: Solution) -> Solution:
    """Change one stage at a time as long as that helps and the limits are kept."""
    if case.evaluator.workload.cluster.fixed:
        return solution
    best = solution
    for _ in range(MAX_SWEEPS):
        start = best
        for stage in range(len(case.options)):
            for plan in _neighbours(case, best.plan, stage):
                if case.is_worth_trying(plan, best.plan):
                    best = better_of(case, best, plan) or best
        if best is start:
            break
    return best


def _neighbours(case: Case, plan: Plan, stage: int) -> Iterator[Plan]:
    """The next options of a stage, with the nodes they use or those of the stage before or after."""
    here = plan.stages[stage]
    around = [planned.nodes_held for planned in plan.stages[max(0, stage - 1) : stage + 2]]
    allocations = [option.allocation for option in case.options[stage]]
    if here.allocation not in allocations:  # a plan of another planner, with a dominated option
        return
    at = allocations.index(here.allocation)
    for allocation in allocations[max(0, at - 1) : at + 2]:
        for held in sorted({allocation.nodes, *around}):
            changed = (allocation, held) != (here.allocation, here.nodes_held)
            if changed and allocation.nodes <= held <= case.max_nodes:
                step = StagePlan(allocation=allocation, nodes_held=held)
                yield Plan((*plan.stages[:stage], step, *plan.stages[stage + 1 :]))


def plan_exact(case: Case) -> Solution | None:
    if not all(case.options):
        return None
    if case.evaluator.workload.is_deterministic:
        rounded = _plan_certain(case)
        return rounded if rounded is None or rounded.optimal else _improved(case, rounded)
    solution = _plan_uncertain(case)
    if solution is None:
        return None
    solution = local_search(case, solution)
    if not case.bounded:
        return solution
    return replace(solution, lower_bound=lower_bound(case, solution.outcome))


def exact_plans(case: Case) -> PlanSet:
    """Every plan for which no other is both faster and cheaper in the mean, fastest first."""
    certain = case.evaluator.workload.is_deterministic
    if not all(case.options):
        return PlanSet((), complete=certain)
    network = build_network(case)
    frontier = find_frontier(network)
    plans = tuple(_to_plan(case, frontier, index) for index in range(len(frontier)))
    exact = frontier.cost_factor == 1.0 and network.has_all_levels
    return PlanSet(plans, complete=certain and exact)


def _plan_certain(case: Case) -> Solution | None:
    """First among the usual node counts; if that proves nothing, again among all, below what was found."""
    limits = _bounds(case)
    network = build_network(case, Weights(every_count=False))
    frontier = find_frontier(network, limits)
    found = _best_certain(case, network, frontier)
    if found is not None and frontier.cost_factor > 1.0:
        return replace(found, lower_bound=found.lower_bound or _bound_without_minimum(case, network, limits))
    if network.has_all_levels:
        return found
    bounds = limits
    if found is not None:
        value = case.value(found.outcome)[0] * (1 + ROUNDING)
        by_cost = case.objective is Objective.COST
        bounds = Bounds(
            time=limits.time if by_cost else min(value, limits.time),
            cost=min(value, limits.cost) if by_cost else limits.cost,
            usd_per_s=frontier.slope,
        )
    among_all = build_network(case)
    best = _best_certain(case, among_all, find_frontier(among_all, bounds))
    # Too many labels are rounded, and then the second search may be worse.
    if best is None or (found is not None and case.value(found.outcome) < case.value(best.outcome)):
        best = found
    if best is None or best.lower_bound is not None:
        return best
    return replace(best, lower_bound=_bound_without_minimum(case, network, limits))


def _improved(case: Case, rounded: Solution) -> Solution:
    """Labels that were rounded lose cheap plans, which greedy may find."""
    found = [local_search(case, each) for each in (rounded, plan_greedy(case)) if each is not None]
    best = min(found, key=lambda solution: case.value(solution.outcome))
    return replace(best, lower_bound=rounded.lower_bound)


def _bound_without_minimum(case: Case, network: Network, limits: Bounds) -> float | None:
    """A lower bound: a minimum charge only adds cost, and without one the search is easy."""
    if not case.bounded:
        return None
    frontier = find_frontier(replace(network, minimum_charge_s=0.0), limits)
    if frontier.cost_factor > 1.0 or not len(frontier):
        return None
    return float((frontier.cost if case.objective is Objective.COST else frontier.time).min())


def _best_certain(case: Case, network: Network, frontier: Frontier) -> Solution | None:
    cost_first = case.objective is Objective.COST
    exact = frontier.cost_factor == 1.0 and network.has_all_levels
    order = np.argsort(frontier.cost if cost_first else frontier.time, kind="stable")
    for index in order:
        plan = _to_plan(case, frontier, int(index))
        outcome = case.evaluator.evaluate(plan)
        if case.limits.keep(outcome):
            value = case.value(outcome)[0]
            proven = exact or (cost_first and network.has_all_levels and frontier.cost_factor < math.inf)
            bound = value / frontier.cost_factor if proven else None
            return Solution(plan=plan, outcome=outcome, optimal=exact, lower_bound=bound)
    return None


def _plan_uncertain(case: Case) -> Solution | None:
    best: Solution | None = None
    tried: set[Plan] = set()

    def most() -> float:
        return math.inf if best is None else case.value(best.outcome)[0] * (1 + SLACK)

    for frontier, order in _candidate_fronts(case, most):
        values = frontier.cost if case.objective is Objective.COST else frontier.time
        for index in order[:MAX_TRIED]:
            if best is not None and values[index] > case.value(best.outcome)[0] * (1 + SLACK):
                break
            plan = _to_plan(case, frontier, index)
            if plan in tried:
                continue
            tried.add(plan)
            if case.is_worth_trying(plan, None if best is None else best.plan):
                best = better_of(case, best, plan)
    return best or best_of(case, _last_resorts(case))


def _last_resorts(case: Case) -> Iterator[Plan]:
    """Plans for limits too tight for the frontiers of means: the best by stage quantiles."""
    for level in (case.limits.confidence, case.limits.confidence ** (1 / len(case.options))):
        weigh = functools.partial(quantile, probability=level)
        by_cost = case.objective is Objective.COST
        weights = Weights(time=weigh) if by_cost else Weights(billed=weigh)
        weights = replace(weights, limited=Objective.TIME if by_cost else Objective.COST)
        frontier = find_frontier(build_network(case, replace(weights, every_count=False)))
        yield from (_to_plan(case, frontier, index) for index in range(min(len(frontier), MAX_TRIED)))
    yield from static_plans(case).plans
    yield from naive_elastic_plans(case).plans


def _candidate_fronts(case: Case, most_wanted: Callable[[], float]) -> Iterator[tuple[Frontier, list[int]]]:
    """Frontiers under margins for the variance, each with its plans in the order to try them.

    `most_wanted`: a candidate with a larger mean of the objective is not tried. A frontier that is large
    without that limit is coarse until a plan is found that sets one.
    """
    cost_first = case.objective is Objective.COST
    limit = case.limits.deadline_s if cost_first else case.limits.budget_usd
    z = max(0.0, float(ndtri(case.limits.confidence)))
    spread = skew = slope = 0.0
    is_large = False
    for _ in range(MAX_ROUNDS):
        margin = z / (2 * spread) if spread else 0.0
        network = _risky_network(case, margin)
        if limit is None:
            frontier = find_frontier(network, rounding=ROUNDED)
            wanted = frontier.cost if cost_first else frontier.time
            yield frontier, [int(i) for i in np.argsort(wanted, kind="stable")]
            return
        allowed = limit - z * spread / 2 + skew
        most = max(allowed, 0.0) + SLACK * limit
        worst = most_wanted() if is_large else math.inf
        bounds = Bounds(time=most, cost=worst) if cost_first else Bounds(time=worst, cost=most)
        small = None if is_large else find_small_frontier(network, bounds, rounding=ROUNDED)
        is_large = small is None
        is_coarse = is_large and worst == math.inf
        rounding = COARSE if is_coarse else ROUNDED
        bounds = replace(bounds, usd_per_s=slope)
        frontier = find_frontier(network, bounds, rounding=rounding) if small is None else small
        if not len(frontier):  # nothing is that good: what comes nearest?
            if worst < math.inf:
                return
            frontier = find_frontier(network, rounding=COARSE)
        limited, wanted = (frontier.time, frontier.cost) if cost_first else (frontier.cost, frontier.time)
        order = [int(i) for i in np.argsort(wanted, kind="stable")]
        yield frontier, [i for i in order if limited[i] <= allowed + SLACK * limit]
        typical = next((i for i in order if limited[i] <= allowed), int(np.argmin(limited)))
        outcome = case.preview.evaluate(_to_plan(case, frontier, typical))
        samples = outcome.limited.jct_s if cost_first else outcome.limited.cost_usd
        found = float(samples.std())
        # The limit moves by the difference between the quantile and that of a normal distribution.
        skew = float(samples.mean()) + z * found - quantile(samples, case.limits.confidence)
        is_settled = found == 0.0 or abs(found - spread) < 0.02 * spread
        if is_settled and not (is_coarse and most_wanted() < math.inf):
            return
        spread, slope = found, frontier.slope


def _risky_network(case: Case, margin: float) -> Network:
    """Means with a margin for the variance of what is limited."""

    def risky(samples: Array) -> float:
        return mean(samples) + margin * float(samples.var())

    if case.objective is Objective.COST:
        return build_network(case, Weights(time=risky, every_count=False, limited=Objective.TIME))
    return build_network(case, Weights(cost_variance_price=margin, every_count=False, limited=Objective.COST))


def _bounds(case: Case) -> Bounds:
    deadline, budget = case.limits.deadline_s, case.limits.budget_usd
    return Bounds(
        time=math.inf if deadline is None else deadline * (1 + ROUNDING),
        cost=math.inf if budget is None else budget * (1 + ROUNDING),
    )


def _to_plan(case: Case, frontier: Frontier, index: int) -> Plan:
    path = frontier.path(index)
    allocations = [case.option(stage, step.option).allocation for stage, step in enumerate(path)]
    held = [step.nodes_held for step in path]
    cluster = case.evaluator.workload.cluster
    if not bills_nodes(cluster) and not cluster.fixed:
        held = _without_idle(case, [allocation.nodes for allocation in allocations], held)
    stages = zip(allocations, held, strict=True)
    return Plan(tuple(StagePlan(allocation=use, nodes_held=nodes) for use, nodes in stages))


def _without_idle(case: Case, used: list[int], held: list[int]) -> list[int]:
    """The same steps up without idle nodes, which labels may hold because by function they are free."""
    trimmed = []
    before = kept = min(len(case.evaluator.workload.node_ages_s), case.max_nodes)
    for stage, nodes in enumerate(held):
        if nodes > before:
            next_step = next((i for i in range(stage, len(held)) if held[i] > nodes), len(held))
            kept = max(kept, *used[stage:next_step])
        trimmed.append(kept)
        before = nodes
    return trimmed
