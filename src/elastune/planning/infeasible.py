"""Why no plan keeps the limits, and what would: the fastest plan, the cheapest, and the limit that binds."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from elastune.errors import InfeasibleError
from elastune.planning.brackets import Answer
from elastune.planning.forecast import Forecast, forecast
from elastune.planning.problem import Limits, Objective


class Limit(enum.Enum):
    """What stands in the way."""

    DEADLINE = "deadline"
    BUDGET = "budget"
    MAX_NODES = "max_nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What was asked, what binds, and what would fit. None: there is no such plan at all."""

    limits: Limits
    binding: Limit
    max_nodes: int
    fastest: Forecast | None
    cheapest: Forecast | None
    cheapest_in_time: Forecast | None
    """The least that one has to pay to keep the deadline."""
    fastest_in_budget: Forecast | None
    with_more_nodes: Forecast | None
    """The cheapest plan that keeps the deadline on a larger cluster, if that is what it takes."""


class NoPlanError(InfeasibleError):
    """No plan keeps the limits. `diagnosis` has the numbers that the message tells."""

    def __init__(self, message: str, diagnosis: Diagnosis) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis


Solve = Callable[[Limits, Objective], Answer | None]


def diagnose(limits: Limits, max_nodes: int, solve: Solve, solve_with_all_nodes: Solve) -> Diagnosis:
    """Find what binds by giving up one limit after the other."""
    free = Limits(confidence=limits.confidence)
    by_deadline = Limits(deadline_s=limits.deadline_s, confidence=limits.confidence)
    by_budget = Limits(budget_usd=limits.budget_usd, confidence=limits.confidence)

    def fit(answer: Answer | None) -> Forecast | None:
        return forecast(answer, limits.confidence)

    cheapest_in_time = None if limits.deadline_s is None else solve(by_deadline, Objective.COST)
    fastest_in_budget = None if limits.budget_usd is None else solve(by_budget, Objective.TIME)
    with_more_nodes = None
    binding = Limit.BUDGET
    if limits.deadline_s is None and limits.budget_usd is None:
        binding = Limit.MAX_NODES
    elif limits.deadline_s is not None and cheapest_in_time is None:
        with_more_nodes = solve_with_all_nodes(by_deadline, Objective.COST)
        binding = Limit.DEADLINE if with_more_nodes is None else Limit.MAX_NODES
    return Diagnosis(
        limits=limits,
        binding=binding,
        max_nodes=max_nodes,
        fastest=fit(solve(free, Objective.TIME)),
        cheapest=fit(solve(free, Objective.COST)),
        cheapest_in_time=fit(cheapest_in_time),
        fastest_in_budget=fit(fastest_in_budget),
        with_more_nodes=fit(with_more_nodes),
    )
