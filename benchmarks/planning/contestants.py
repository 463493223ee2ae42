"""The planners that are compared: ours by name, and the paper's static and greedy to the letter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.planning.letter_greedy import plan_greedy_to_the_letter, plan_static_to_the_letter
from elastune.model.limits import Objective
from elastune.planning.planners.registry import PLANNERS
from elastune.planning.problem import Case, Problem, Solution, build_case

LETTER = "greedy-letter"
STATIC_LETTER = "static-letter"

CONTESTANTS: dict[str, Callable[[Case], Solution | None]] = {
    STATIC_LETTER: plan_static_to_the_letter,
    "static": PLANNERS["static"].solve,
    "naive-elastic": PLANNERS["naive-elastic"].solve,
    LETTER: plan_greedy_to_the_letter,
    "greedy": PLANNERS["greedy"].solve,
    "exact": PLANNERS["exact"].solve,
}


def fresh_case(problem: Problem, *, samples: int = 4096, objective: Objective = Objective.COST) -> Case:
    """What a planner is given, with nothing computed yet for another planner."""
    case = build_case(problem.workloads()[0], problem.gangs, samples=samples, seed=0)
    return replace(case, limits=problem.limits, objective=objective)
