"""Plans for several specs side by side (Hyperband): each on nodes of its own, all under the same limits.

For a deadline every bracket is planned by itself, at the confidence that makes the whole keep its own; that
is the best if their nodes together fit the cluster. If they do not, or if a budget has to be shared, each
bracket has `BracketOptions` for several shares of the cluster, and `choose` finds for each moment the
cheapest choice of one plan per bracket that fits the nodes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from elastune.model.billing import bills_nodes, charged_each_s, ingress_usd, node_rate
from elastune.model.distributions import Array
from elastune.model.limits import Limits, Objective, Outcome
from elastune.planning.planners.registry import Planner
from elastune.planning.prediction.plan import Plan
from elastune.planning.problem import Case, Solution

MAX_SHARES = 24
MAX_MOMENTS = 200


@dataclass(frozen=True, slots=True)
class BracketOption:
    plan: Plan
    outcome: Outcome
    jct_s: float
    cost_usd: float
    peak_nodes: int


@dataclass(frozen=True, slots=True)
class BracketOptions:
    """Points that no other beats in time, cost and peak at once, fastest first."""

    points: tuple[BracketOption, ...]
    complete: bool  # no plan is faster and cheaper in the mean than all of these, whatever its peak


def write_options(planner: Planner, case: Case, *, shared: bool = True) -> BracketOptions:
    """The planner's plans for the whole cluster and, if it is shared, for some shares of it."""
    sizes = {option.allocation.nodes for options in case.options for option in options}
    whole = planner.plans(case)
    plans = dict.fromkeys(whole.plans)
    for share in _spread_out(sorted(sizes)) if shared else ():
        plans |= dict.fromkeys(planner.plans(case.within(share)).plans)
    outcomes = ((plan, case.evaluator.evaluate(plan)) for plan in plans)
    points = [BracketOption(p, out, out.mean_jct_s, out.mean_cost_usd, p.peak_nodes) for p, out in outcomes]
    return BracketOptions(tuple(_undominated(points)), whole.complete)


def _spread_out(sizes: list[int]) -> list[int]:
    if len(sizes) <= MAX_SHARES:
        return sizes
    return [sizes[i] for i in np.unique(np.geomspace(1, len(sizes), MAX_SHARES).round().astype(int) - 1)]


def _undominated(points: Sequence[BracketOption]) -> list[BracketOption]:
    kept: list[BracketOption] = []
    # By peak: the least cost of a kept point with no more nodes.
    cheapest = np.full(max((p.peak_nodes for p in points), default=0) + 1, np.inf)
    for point in sorted(points, key=lambda p: (p.jct_s, p.cost_usd, p.peak_nodes)):
        if point.cost_usd < cheapest[point.peak_nodes]:
            kept.append(point)
            above = cheapest[point.peak_nodes :]
            np.minimum(above, point.cost_usd, out=above)
    return kept


def choose(
    options: Sequence[BracketOptions], admits: Callable[[BracketOption], bool], max_nodes: float
) -> tuple[BracketOption, ...] | None:
    """The cheapest choice of one admitted point per bracket whose peaks together fit, or None."""
    # A knapsack: `best` maps nodes taken so far to the least cost and its choice.
    best: dict[int, tuple[float, tuple[BracketOption, ...]]] = {0: (0.0, ())}
    for option in options:
        by_peak: dict[int, BracketOption] = {}
        for point in option.points:
            rival = by_peak.get(point.peak_nodes)
            if admits(point) and (rival is None or point.cost_usd < rival.cost_usd):
                by_peak[point.peak_nodes] = point
        extended: dict[int, tuple[float, tuple[BracketOption, ...]]] = {}
        for taken, (cost, chosen) in best.items():
            for peak, point in by_peak.items():
                nodes, total = taken + peak, cost + point.cost_usd
                if nodes <= max_nodes and total < extended.get(nodes, (math.inf, ()))[0]:
                    extended[nodes] = (total, (*chosen, point))
        best = extended
    return min(best.values(), key=lambda entry: entry[0], default=(0.0, None))[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One solution per spec, and their joint outcome."""

    brackets: tuple[Solution, ...]
    outcome: Outcome
    optimal: bool = False
    lower_bound: float | None = None

    @property
    def peak_nodes(self) -> int:
        return sum(solution.plan.peak_nodes for solution in self.brackets)


def solve(planner: Planner, cases: Sequence[Case], limits: Limits, objective: Objective) -> Answer | None:
    """The best plans for all specs together that keep the limits, or None."""
    if len(cases) == 1:
        one = planner.solve(replace(cases[0], limits=limits, objective=objective))
        if one is None:
            return None
        return Answer(brackets=(one,), outcome=one.outcome, optimal=one.optimal, lower_bound=one.lower_bound)
    by_time = objective is Objective.TIME
    return (_solve_for_time if by_time else _solve_for_cost)(planner, cases, limits)


def together(cases: Sequence[Case], brackets: Sequence[Solution]) -> Outcome:
    """All brackets start at once: the last end is the time, the sum is the cost."""
    outcome = _together(cases, [(solution.plan, solution.outcome) for solution in brackets])
    if all(solution.outcome.worst is None for solution in brackets):
        return outcome
    worst = _together(cases, [(solution.plan, solution.outcome.limited) for solution in brackets])
    return replace(outcome, worst=worst)


def _together(cases: Sequence[Case], brackets: Sequence[tuple[Plan, Outcome]]) -> Outcome:
    outcomes = [outcome for _, outcome in brackets]
    # A bracket in which nothing is random has one sample, which goes with all of the others.
    jct_s = functools.reduce(np.maximum, (outcome.jct_s for outcome in outcomes))
    cost_usd = functools.reduce(np.add, (outcome.cost_usd for outcome in outcomes))
    cluster = cases[0].evaluator.workload.cluster
    if _is_held_to_the_end(cases):
        cost_usd = cost_usd + _held_on_usd(cases, brackets, jct_s)
    if cluster.fixed:
        unused = cases[0].max_nodes - sum(plan.peak_nodes for plan, _ in brackets)
        cost_usd = cost_usd + ingress_usd(cluster, unused)
    return Outcome(
        jct_s=jct_s,
        cost_usd=cost_usd,
        stage_mean_s=tuple(seconds for outcome in outcomes for seconds in outcome.stage_mean_s),
        stage_mean_usd=tuple(usd for outcome in outcomes for usd in outcome.stage_mean_usd),
    )


def _held_on_usd(cases: Sequence[Case], brackets: Sequence[tuple[Plan, Outcome]], jct_s: Array) -> Array:
    """What the nodes of a fixed cluster cost after their bracket has ended, and those that none ever used.

    No more than the rest of the minimum charge, if that was paid already.
    """
    cluster = cases[0].evaluator.workload.cluster
    node_s, unused = np.zeros_like(jct_s), cases[0].max_nodes
    for case, (plan, outcome) in zip(cases, brackets, strict=True):
        ages = case.evaluator.workload.node_ages_s[: plan.peak_nodes]
        new = (plan.peak_nodes - len(ages), -case.evaluator.draws.queue_s(0))
        for nodes, age_s in (new, *((1, np.array([age])) for age in ages)):
            charged = charged_each_s(cluster, age_s + outcome.jct_s)
            node_s = node_s + nodes * (charged_each_s(cluster, age_s + jct_s) - charged)
        unused -= plan.peak_nodes
    born_s = cases[0].evaluator.draws.queue_s(0)
    return np.asarray(node_rate(cluster) * (node_s + unused * charged_each_s(cluster, jct_s - born_s)))


def _is_held_to_the_end(cases: Sequence[Case]) -> bool:
    """Whether all nodes cost until the last bracket ends, whichever bracket uses them."""
    cluster = cases[0].evaluator.workload.cluster
    return cluster.fixed and bills_nodes(cluster)


def _solve_for_cost(planner: Planner, cases: Sequence[Case], limits: Limits) -> Answer | None:
    """Plan every bracket by itself; if their nodes do not fit together, take the cheapest fitting choice."""
    if _is_held_to_the_end(cases):  # the sooner the cheaper
        return _solve_for_time(planner, cases, limits)
    fixed = cases[0].evaluator.workload.cluster.fixed
    each = Limits(deadline_s=limits.deadline_s, confidence=_each(limits, cases))
    found = [planner.solve(replace(case, limits=each, objective=Objective.COST)) for case in cases]
    alone = [solution for solution in found if solution is not None]
    if len(alone) < len(cases):
        return None
    bound = None if fixed else _bound(planner, cases, limits, alone)
    fits = sum(solution.plan.peak_nodes for solution in alone) <= cases[0].max_nodes
    if fits:
        answer = Answer(brackets=tuple(alone), outcome=together(cases, alone))
    else:
        options = [write_options(planner, case) for case in cases]
        points = choose(options, lambda point: each.keep_deadline(point.outcome), cases[0].max_nodes)
        if points is None:
            return None
        answer = _answer(cases, points)
    if not limits.keep(answer.outcome):
        return None
    optimal = fits and not fixed and all(solution.optimal for solution in alone)
    return replace(answer, optimal=optimal, lower_bound=bound)


def _bound(
    planner: Planner, cases: Sequence[Case], limits: Limits, alone: Sequence[Solution]
) -> float | None:
    """If all brackets keep the deadline together, each one does; so their bounds add up."""
    if all(solution.optimal for solution in alone):
        return math.fsum(solution.outcome.mean_cost_usd for solution in alone)
    if planner.bound is None or not cases[0].bounded:
        return None
    in_time = Limits(deadline_s=limits.deadline_s, confidence=limits.confidence)
    return math.fsum(
        planner.bound(replace(case, limits=in_time, objective=Objective.COST), solution.outcome)
        for case, solution in zip(cases, alone, strict=True)
    )


def _solve_for_time(planner: Planner, cases: Sequence[Case], limits: Limits) -> Answer | None:
    """Plans for the first moment by which all brackets can have ended within the limits."""
    options = [write_options(planner, case) for case in cases]
    moments, held_to_the_end = moments_of(options), _is_held_to_the_end(cases)

    def by(moment: float) -> Answer | None:
        points = choose(options, functools.partial(_ends_by, moment), cases[0].max_nodes)
        answer = None if points is None else _answer(cases, points)
        cheap = answer is not None and (held_to_the_end or limits.keep_budget(answer.outcome))
        return answer if cheap else None

    # What a budget pays for by one moment it pays for by every later one, except for the last bits of random
    # costs. The deadline, and all that a fixed cluster costs, is for the soonest: later ones are slower.
    low, high = 0, len(moments)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if by(moments[middle]) is not None else (middle + 1, high)
    answer = by(moments[low]) if low < len(moments) else None
    if answer is None or not limits.keep(answer.outcome):
        return None
    proven = _is_proven_soonest(options, cases, moments[:low], limits)
    return replace(answer, optimal=proven, lower_bound=answer.outcome.mean_jct_s if proven else None)


def _is_proven_soonest(
    options: Sequence[BracketOptions], cases: Sequence[Case], earlier: Sequence[float], limits: Limits
) -> bool:
    """Whether all brackets can end at no earlier moment, or only for more money, on any number of nodes.

    Options are complete for the whole cluster, and only for some shares of it.
    """
    workload = cases[0].evaluator.workload
    complete = all(option.complete for option in options) and workload.is_deterministic
    if not complete or workload.cluster.fixed:
        return False
    if not earlier:
        return True
    points = choose(options, functools.partial(_ends_by, earlier[-1]), math.inf)
    return points is None or not limits.keep_budget(_answer(cases, points).outcome)


def trade_offs(planner: Planner, cases: Sequence[Case]) -> list[Answer]:
    """The undominated answers within the cluster, without limits, fastest first."""
    options = [write_options(planner, case, shared=len(cases) > 1) for case in cases]
    if len(options) == 1:
        chosen: list[tuple[BracketOption, ...]] = [(point,) for point in options[0].points]
    else:
        moments = moments_of(options)
        picked = moments[:: max(1, len(moments) // MAX_MOMENTS)]
        by = [choose(options, functools.partial(_ends_by, moment), cases[0].max_nodes) for moment in picked]
        chosen = [points for points in by if points is not None]
    frontier: list[Answer] = []
    for points in chosen:
        answer = _answer(cases, points)
        if not frontier or answer.outcome.mean_cost_usd < frontier[-1].outcome.mean_cost_usd:
            frontier.append(answer)
    return frontier


def _ends_by(moment: float, point: BracketOption) -> bool:
    return point.jct_s <= moment


def _answer(cases: Sequence[Case], points: Sequence[BracketOption]) -> Answer:
    brackets = tuple(Solution(plan=point.plan, outcome=point.outcome) for point in points)
    return Answer(brackets=brackets, outcome=together(cases, brackets))


def moments_of(options: Sequence[BracketOptions]) -> list[float]:
    """The times at which a bracket can have ended, from the first at which all can."""
    if not all(option.points for option in options):
        return []
    first = max(min(point.jct_s for point in option.points) for option in options)
    return sorted({point.jct_s for option in options for point in option.points if point.jct_s >= first})


def _each(limits: Limits, cases: Sequence[Case]) -> float:
    """The confidence at which each of several independent brackets has to keep the deadline."""
    return float(limits.confidence ** (1 / len(cases)))
