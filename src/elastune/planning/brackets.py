"""Plans for several specs side by side (Hyperband): each on nodes of its own, all under the same limits.

By a deadline every bracket is planned by itself, at the confidence that makes the whole keep its own. For a
budget the brackets' frontiers are added at equal time. The nodes that all brackets hold together may not
exceed the cluster: if the sum of their peaks does, the cluster is split between them, which is no longer
provably the best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from elastune.planning.case import Case
from elastune.planning.frontier import side_by_side, trace_frontier
from elastune.planning.planners import Planner
from elastune.planning.problem import Limits, Objective
from elastune.planning.solution import Solution
from elastune.prediction import Outcome

MAX_SHARES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One solution per spec, and what they come to together."""

    brackets: tuple[Solution, ...]
    outcome: Outcome
    optimal: bool
    lower_bound: float | None

    @property
    def peak_nodes(self) -> int:
        """Nodes that all specs together may hold at once."""
        return sum(solution.plan.peak_nodes for solution in self.brackets)


def solve(planner: Planner, cases: Sequence[Case], limits: Limits, objective: Objective) -> Answer | None:
    """The best plans for all specs together that keep the limits, or None."""
    if len(cases) == 1:
        solution = planner.solve(replace(cases[0], limits=limits, objective=objective))
        return None if solution is None else _single(solution)
    if objective is Objective.TIME:
        return _solve_for_time(planner, cases, limits)
    return _solve_for_cost(planner, cases, limits)


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """All brackets start at once: the last one to end counts, every one costs."""
    return Outcome(
        jct_s=np.maximum.reduce([outcome.jct_s for outcome in outcomes]),
        cost_usd=np.add.reduce([outcome.cost_usd for outcome in outcomes]),
        stage_mean_s=tuple(seconds for outcome in outcomes for seconds in outcome.stage_mean_s),
        stage_mean_usd=tuple(usd for outcome in outcomes for usd in outcome.stage_mean_usd),
    )


def _single(solution: Solution) -> Answer:
    return Answer(
        brackets=(solution,),
        outcome=solution.outcome,
        optimal=solution.optimal,
        lower_bound=solution.lower_bound,
    )


def _solve_for_cost(planner: Planner, cases: Sequence[Case], limits: Limits) -> Answer | None:
    each = Limits(deadline_s=limits.deadline_s, confidence=limits.confidence ** (1 / len(cases)))
    ready = [replace(case, limits=each, objective=Objective.COST) for case in cases]
    found = [planner.solve(case) for case in ready]
    solutions = [solution for solution in found if solution is not None]
    if len(solutions) < len(cases):
        return None
    bounds = [solution.lower_bound for solution in solutions]
    optimal = all(solution.optimal for solution in solutions)
    if sum(solution.plan.peak_nodes for solution in solutions) > cases[0].max_nodes:
        solutions, optimal = _share_nodes(planner, ready), False
    if not solutions:
        return None
    outcome = together([solution.outcome for solution in solutions])
    if not limits.keep(outcome):
        return None
    return Answer(
        brackets=tuple(solutions),
        outcome=outcome,
        optimal=optimal,
        lower_bound=None if None in bounds else math.fsum(bound for bound in bounds if bound is not None),
    )


def _share_nodes(planner: Planner, cases: Sequence[Case]) -> list[Solution]:
    """The cheapest split of the cluster: one share per bracket, of a few sizes that its stages can use."""
    best: dict[int, tuple[float, list[Solution]]] = {0: (0.0, [])}
    for case in cases:
        options = [(share, planner.solve(case.within(share))) for share in _shares(case)]
        extended: dict[int, tuple[float, list[Solution]]] = {}
        for taken, (cost, chosen) in best.items():
            for share, solution in options:
                nodes = taken + share
                if solution is None or nodes > case.max_nodes:
                    continue
                total = cost + solution.outcome.mean_cost_usd
                if nodes not in extended or total < extended[nodes][0]:
                    extended[nodes] = (total, [*chosen, solution])
        best = extended
    return min(best.values(), key=lambda entry: entry[0], default=(0.0, []))[1]


def _shares(case: Case) -> list[int]:
    sizes = sorted({option.allocation.nodes for options in case.options for option in options})
    if len(sizes) <= MAX_SHARES:
        return sizes
    return [sizes[i] for i in np.unique(np.linspace(0, len(sizes) - 1, MAX_SHARES).round().astype(int))]


def _solve_for_time(planner: Planner, cases: Sequence[Case], limits: Limits) -> Answer | None:
    answer = _soonest(planner, cases, limits)
    if answer is None or answer.peak_nodes <= cases[0].max_nodes:
        return answer
    # Too many nodes at once: give each bracket a share in proportion to the peak it asked for.
    peaks = [solution.plan.peak_nodes for solution in answer.brackets]
    shares = [max(1, cases[0].max_nodes * peak // sum(peaks)) for peak in peaks]
    shared = _soonest(planner, [c.within(share) for c, share in zip(cases, shares, strict=True)], limits)
    return None if shared is None else replace(shared, optimal=False, lower_bound=answer.lower_bound)


def _soonest(planner: Planner, cases: Sequence[Case], limits: Limits) -> Answer | None:
    """Go through the moments at which the brackets could all have ended, until the limits are kept."""
    frontiers = [trace_frontier(planner, case) for case in cases]
    certain = all(case.evaluator.workload.is_deterministic for case in cases)
    proven = certain and all(frontier.complete for frontier in frontiers)
    for points in side_by_side(frontiers):
        outcome = together([point.outcome for point in points])
        if limits.keep(outcome):
            return Answer(
                brackets=tuple(Solution(plan=point.plan, outcome=point.outcome) for point in points),
                outcome=outcome,
                optimal=proven,
                lower_bound=outcome.mean_jct_s if proven else None,
            )
    return None
