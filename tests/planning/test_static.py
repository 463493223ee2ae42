"""The best cluster of fixed size, against every plan that holds the same nodes in all stages."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.limits import Limits, Objective
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Stage
from elastune.planning.planners.static import plan_static
from elastune.planning.prediction.plan import Workload
from elastune.planning.problem import Case
from tests.planning.brute_force import Tried, make_case, number_of_plans, try_all
from tests.planning.campaign import random_workload

MOST_PLANS = 1_500


def static_ones(case: Case) -> list[Tried]:
    return [one for one in try_all(case.evaluator) if len({s.nodes_held for s in one.plan.stages}) == 1]


def small_workloads(seed: int, number: int) -> list[Workload]:
    rng = random.Random(seed)
    found: list[Workload] = []
    while len(found) < number:
        workload = replace(random_workload(rng), node_ages_s=(), slots_now=0)
        if 0 < number_of_plans(workload) <= MOST_PLANS:
            found.append(workload)
    return found


@pytest.mark.parametrize("workload", small_workloads(seed=1, number=25))
def test_no_cluster_of_fixed_size_is_better(workload: Workload) -> None:
    case, rng = make_case(workload), random.Random(3)
    tried = static_ones(case)
    deadline, budget = rng.choice(tried).jct_s * 1.001, rng.choice(tried).cost_usd * 1.001
    cheapest = plan_static(replace(case, limits=Limits(deadline_s=deadline)))
    assert cheapest is not None
    assert cheapest.outcome.mean_cost_usd == pytest.approx(
        min(one.cost_usd for one in tried if one.jct_s <= deadline)
    )
    fastest = plan_static(replace(case, limits=Limits(budget_usd=budget), objective=Objective.TIME))
    assert fastest is not None
    assert fastest.outcome.mean_jct_s == pytest.approx(
        min(one.jct_s for one in tried if one.cost_usd <= budget)
    )


SCALING = Workload(
    stages=(Stage(trials=4, iterations=3), Stage(trials=2, iterations=3)),
    profile=Profile(iteration=Constant(10.0), speedup=Speedup.of({2: 1.5, 4: 2.0}), startup=Constant(30.0)),
    cluster=ClusterTerms(slots_per_node=4, max_nodes=4, price_per_hour=36.0, minimum_charge_s=0.0),
)


def test_billed_by_function_a_slower_division_is_used_if_it_is_cheaper() -> None:
    cluster = replace(SCALING.cluster, billing=Billing.FUNCTION)
    case = make_case(replace(SCALING, cluster=cluster))
    solution = plan_static(case)
    assert solution is not None
    assert {stage.allocation.slots_per_trial for stage in solution.plan.stages} == {1}
    assert solution.outcome.mean_cost_usd == pytest.approx(6 * 60 * 36 / 3600 / 4)


def test_gangs_that_stay_save_more_than_faster_ones() -> None:
    cluster = replace(SCALING.cluster, max_nodes=1, fixed=True)
    case = make_case(replace(SCALING, cluster=cluster))
    solution = plan_static(case)
    assert solution is not None
    # Two slots each in the second stage would be 10 s faster and take 30 s to start.
    assert [stage.allocation.slots_per_trial for stage in solution.plan.stages] == [1, 1]
    assert solution.outcome.mean_jct_s == pytest.approx(30 + 30 + 30)
