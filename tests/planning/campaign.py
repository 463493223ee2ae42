"""A long hunt for plans that `exact` misses: random jobs with constant latencies against brute force.

    python -m tests.planning.campaign --jobs 5000 --seed 1

Each job is asked for the cheapest plan by a deadline, the fastest for a budget, the same with both limits,
and the whole frontier; the other planners must not be better. Jobs may begin in the middle of a run, on nodes
at hand or on a fixed cluster. A miss prints the workload, ready to become a test, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.continuing import Continuing
from elastune.model.distributions import Constant
from elastune.model.limits import Limits, Objective
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Stage
from elastune.planning.planners.exact import exact_plans, plan_exact
from elastune.planning.planners.registry import PLANNERS
from elastune.planning.prediction.plan import Workload
from elastune.planning.problem import Case
from tests.planning.brute_force import Tried, frontier_of, make_case, number_of_plans, try_all

MOST_PLANS = 6_000


def random_workload(rng: random.Random) -> Workload:
    """Small numbers and few distinct values, because ties are where mistakes hide."""
    two = rng.uniform(0.8, 2.0)
    scaling = rng.choice([{}, {2: 2.0, 4: 4.0}, {2: two, 4: two * rng.uniform(0.7, 2.0)}, {3: 2.5}, {4: 3.0}])
    stages = random_stages(rng)
    ages = tuple(rng.choice([0.0, 10.0, 45.0, 100.0, 1000.0]) for _ in range(rng.choice([0, 0, 1, 2, 4, 6])))
    done = rng.choice([0, 0, 3])
    return Workload(
        stages=stages,
        profile=Profile(
            iteration=Constant(rng.choice([1.0, 5.0, 10.0, 60.0])),
            speedup=Speedup.of(scaling),
            startup=Constant(rng.choice([0.0, 2.0, 15.0])),
            save=Constant(rng.choice([0.0, 1.0])),
            sync=Constant(rng.choice([0.0, 3.0])),
            transfer_s=rng.choice([0.0, 0.0, 4.0]),
        ),
        cluster=random_cluster(rng),
        node_ages_s=ages,
        slots_now=rng.choice([0, 0, 1, 2]) if ages else 0,
        resumes=bool(done),
        continuing=rng.choice([Continuing.CHECKPOINT, Continuing.CHECKPOINT, *Continuing]),
        goals=tuple(itertools.accumulate((stage.iterations for stage in stages), initial=done))[1:],
    )


def random_stages(rng: random.Random) -> tuple[Stage, ...]:
    """Trials need not fall; in the middle of the first stage each owes its own work."""
    stages = [Stage(trials=rng.randint(1, 6), iterations=rng.randint(1, 7)) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.3:
        owed = tuple(rng.randint(1, stages[0].iterations) for _ in range(stages[0].trials))
        stages[0] = Stage(trials=len(owed), iterations=max(owed), remaining=owed)
    return tuple(stages)


def random_cluster(rng: random.Random) -> ClusterTerms:
    return ClusterTerms(
        slots_per_node=rng.choice([1, 1, 2, 3, 4]),
        max_nodes=rng.randint(1, 6),
        price_per_hour=rng.choice([3600.0, 3600.0, 36.0]),
        fixed=rng.random() < 0.15,
        billing=rng.choice([Billing.INSTANCE, Billing.INSTANCE, Billing.FUNCTION]),
        minimum_charge_s=rng.choice([0.0, 20.0, 60.0, 100.0, 150.0, 1000.0]),
        queue=Constant(rng.choice([0.0, 0.0, 5.0, 30.0])),
        init=Constant(rng.choice([0.0, 10.0, 40.0])),
        data_usd_per_node=rng.choice([0.0, 0.0, 0.1, 20.0]),
    )


def misses(workload: Workload, rng: random.Random) -> Iterator[str]:
    """What `exact` gets wrong about a workload."""
    case = make_case(workload)
    tried = try_all(case.evaluator)
    deadline, budget = rng.choice(tried).jct_s, rng.choice(tried).cost_usd
    both = Limits(deadline_s=deadline, budget_usd=budget)
    for limits, objective in (
        (replace(both, budget_usd=None), Objective.COST),
        (replace(both, deadline_s=None), Objective.TIME),
        *((both, objective) for objective in Objective),
    ):
        yield from _misses_within(replace(case, limits=limits, objective=objective), tried)
    found = [Tried(plan, case.evaluator.evaluate(plan)) for plan in exact_plans(case).plans]
    for seconds, usd in frontier_of(tried):
        if all(_more(one.jct_s, seconds) or _more(one.cost_usd, usd) for one in found):
            yield f"the frontier lacks {seconds!r} s for ${usd!r}"


def _misses_within(case: Case, tried: Sequence[Tried]) -> Iterator[str]:
    """What `exact` gets wrong under some limits, and planners that get it right."""
    asked = f"{case.objective.value} within {case.limits}"
    best = min((case.value(one.outcome)[0] for one in tried if case.limits.keep(one.outcome)), default=None)
    solution = plan_exact(case)
    if best is None:
        if solution is not None:
            yield f"{asked}: no plan keeps the limits, exact says {solution}"
        return
    if solution is None or not solution.optimal or _more(case.value(solution.outcome)[0], best):
        yield f"{asked}: the best plan has {best!r}, exact says {solution}"
    for name, planner in PLANNERS.items():
        other = planner.solve(case)
        if other is not None and _more(best, case.value(other.outcome)[0]):
            yield f"{asked}: the best plan has {best!r}, {name} says {other}"


def _more(value: float, than: float) -> bool:
    return value > than * (1 + 1e-9) + 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    end = time.monotonic() + options.seconds
    jobs = missed = 0
    told = time.monotonic()
    while time.monotonic() < end and jobs < options.jobs:
        workload = random_workload(rng)
        if not 0 < number_of_plans(workload) <= MOST_PLANS:
            continue
        jobs += 1
        for miss in misses(workload, rng):
            missed += 1
            print(f"{miss}\n  {workload}", flush=True)
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"{jobs} of {options.jobs} jobs, {missed} missed", file=sys.stderr)
    print(f"{jobs} jobs, {missed} missed (seed {options.seed})")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
