"""Pricing a job before it runs."""

from __future__ import annotations

from elastune.api.arguments import AnyJob, as_job, whole
from elastune.errors import JobError
from elastune.planning import (
    DEFAULT_PLANNER,
    DEFAULT_SAMPLES,
    PLANNERS,
    Objective,
    Quote,
    Request,
    make_quote,
)

MOST_SAMPLES = 1_000_000
MOST_SEED = 2**63 - 1


def plan(
    job: AnyJob,
    *,
    planner: str = DEFAULT_PLANNER,
    objective: Objective | str | None = None,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    frontier: bool = False,
    compare: bool = False,
) -> Quote:
    """The best plan for a job: what it costs, when it ends, stage by stage.

    `job` is a `Job`, a mapping with its keys, or the path of a YAML file. `objective` is `cost` (least cost
    by the deadline) or `time` (least time for the budget); without it, cost unless the job has only a budget.
    Raises `JobError` if the job is wrong and `InfeasibleError` if no plan keeps its limits.
    """
    request = Request(
        planner=_known_planner(planner),
        objective=_objective(objective),
        samples=whole("samples", samples, 1, MOST_SAMPLES),
        seed=whole("seed", seed, 0, MOST_SEED),
        frontier=frontier,
        compare=compare,
    )
    return make_quote(as_job(job).to_problem(), request)


def _known_planner(name: str) -> str:
    if name not in PLANNERS:
        raise JobError(f"planner is {name!r}; expected one of: {', '.join(PLANNERS)}")
    return name


def _objective(objective: Objective | str | None) -> Objective | None:
    if objective is None or isinstance(objective, Objective):
        return objective
    allowed = [each.value for each in Objective]
    if objective not in allowed:
        raise JobError(f"objective is {objective!r}; expected one of: {', '.join(allowed)}")
    return Objective(objective)
