"""The kind of node that a job gets, and what is proven of it, against all plans on all kinds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest

import elastune
from elastune.errors import InfeasibleError
from elastune.job.job import Job
from elastune.model.limits import Limits, Outcome
from elastune.planning.problem import build_case
from tests.planning.brute_force import try_each


def random_job(rng: random.Random) -> Job:
    kinds = []
    for number in range(rng.choice([2, 2, 3])):
        two = rng.choice([1.0, 1.6, 2.0])
        profile = {
            "iteration": f"{rng.choice([5, 10, 30, 60])}s",
            "speedup": {2: two, 4: two * rng.choice([1.0, 1.5, 2.0])},
            "startup": rng.choice([0, 2, 15]),
            "save": rng.choice([0, 1]),
        }
        each = {"name": f"kind {number}", "slots_per_node": rng.choice([1, 2, 4]), "profile": profile}
        each |= {"price_per_hour": rng.choice([36, 72, 360]), "max_nodes": rng.randint(1, 4)}
        kinds.append(each | {"queue": rng.choice([0, 30]), "init": rng.choice([0, 40])})
    stages = [{"trials": count, "iterations": rng.randint(1, 5)} for count in (rng.randint(2, 5), 1)]
    limits = {"deadline": f"{rng.choice([30, 60, 120, 400])}s", "budget": rng.choice([0.5, 2, 8, 30])}
    given = rng.choice([("deadline",), ("budget",), ("deadline", "budget")])
    return Job.from_dict(
        {
            "search": {"algorithm": "stages", "stages": stages},
            "cluster": {"minimum_charge": rng.choice([0, 60]), "kinds": kinds},
            **{name: limits[name] for name in given},
        }
    )


def all_outcomes(job: Job, limits: Limits) -> Iterator[Outcome]:
    for kind in job.cluster.kinds:
        problem = job.of_kind(kind).to_problem()
        case = build_case(problem.workloads()[0], problem.gangs, samples=2, seed=0)
        if all(case.options):
            yield from (one.outcome for one in try_each(case.evaluator) if limits.keep(one.outcome))


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_on_any_kind_is_better(seed: int) -> None:
    job = random_job(random.Random(seed))
    by_time = job.deadline is None
    limits = Limits(deadline_s=job.deadline, budget_usd=job.budget)
    values = (each.mean_jct_s if by_time else each.mean_cost_usd for each in all_outcomes(job, limits))
    best = min(values, default=math.inf)
    try:
        quote = elastune.plan(job)
    except InfeasibleError:
        assert best == math.inf
        return
    assert quote.optimal
    assert (quote.jct_seconds if by_time else quote.cost) == pytest.approx(best)
    bound = quote.bound_on_any_kind
    assert bound is None or bound == pytest.approx(best)
