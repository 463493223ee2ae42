"""What a planner answers, and how it finds the best of its candidates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from elastune.planning.case import Case
from elastune.prediction import Outcome, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A plan that keeps the limits, and what is known about how good it is.

    `lower_bound` is on the mean of what the objective makes small (dollars or seconds); None: nothing known.
    """

    plan: Plan
    outcome: Outcome
    optimal: bool = False
    lower_bound: float | None = None


@dataclass(frozen=True, slots=True)
class PlanSet:
    """The plans among which a planner trades time against money, limits aside."""

    plans: tuple[Plan, ...]
    complete: bool = False
    """No plan outside is both as fast and as cheap, in the mean, as one inside."""


def best_of(case: Case, plans: Iterable[Plan]) -> Solution | None:
    """The best of the candidates that keep the limits: looked through on a few samples, judged on all."""
    best: Solution | None = None
    for plan in sorted(plans, key=lambda plan: case.value(case.preview.evaluate(plan))):
        if case.is_worth_trying(plan, None if best is None else best.plan):
            best = better_of(case, best, plan)
    return best


def better_of(case: Case, best: Solution | None, plan: Plan) -> Solution | None:
    """The plan, if on all samples it keeps the limits and is better than the best so far; else that."""
    outcome = case.evaluator.evaluate(plan)
    better = best is None or case.value(outcome) < case.value(best.outcome)
    return Solution(plan=plan, outcome=outcome) if better and case.limits.keep(outcome) else best
