"""With nothing random, `exact` equals brute force over all plans and all holds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.limits import Objective
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Stage
from elastune.planning.planners.exact import exact_plans, plan_exact
from elastune.planning.prediction.plan import Workload
from tests.planning.brute_force import MOST_PLANS, frontier_of, make_case, number_of_plans, try_all
from tests.planning.campaign import misses, random_workload
from tests.thoroughness import examples
from tests.workloads import certain_workloads


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-9, abs=1e-9)


@given(certain_workloads(), st.data())
@examples(30, explore=120)
def test_no_plan_is_cheaper_by_the_deadline(workload: Workload, data: st.DataObject) -> None:
    assume(number_of_plans(workload) <= MOST_PLANS)
    tried = try_all(make_case(workload).evaluator)
    deadline = data.draw(st.sampled_from(sorted({one.jct_s for one in tried})))
    best = min(one.cost_usd for one in tried if one.jct_s <= deadline * (1 + 1e-9))
    solution = plan_exact(make_case(workload, deadline_s=deadline))
    assert solution is not None
    assert solution.outcome.mean_cost_usd == near(best)
    assert solution.outcome.mean_jct_s <= deadline * (1 + 1e-9)
    assert solution.optimal
    assert solution.lower_bound == near(best)


@given(certain_workloads(), st.data())
@examples(20, explore=80)
def test_no_plan_is_faster_for_the_budget(workload: Workload, data: st.DataObject) -> None:
    assume(number_of_plans(workload) <= MOST_PLANS)
    tried = try_all(make_case(workload).evaluator)
    budget = data.draw(st.sampled_from(sorted({one.cost_usd for one in tried})))
    best = min(one.jct_s for one in tried if one.cost_usd <= budget * (1 + 1e-9))
    solution = plan_exact(make_case(workload, budget_usd=budget, objective=Objective.TIME))
    assert solution is not None
    assert solution.outcome.mean_jct_s == near(best)
    assert solution.outcome.mean_cost_usd <= budget * (1 + 1e-9)
    assert solution.optimal


@given(certain_workloads())
@examples(15, explore=60)
def test_the_frontier_is_the_whole_frontier(workload: Workload) -> None:
    assume(number_of_plans(workload) <= MOST_PLANS)
    case = make_case(workload)
    found = exact_plans(case)
    assert found.complete
    outcomes = [case.evaluator.evaluate(plan) for plan in found.plans]
    points = [(outcome.mean_jct_s, outcome.mean_cost_usd) for outcome in outcomes]
    for (time, cost), (expected_time, expected_cost) in zip(
        points, frontier_of(try_all(case.evaluator)), strict=True
    ):
        assert time == near(expected_time)
        assert cost == near(expected_cost)


@given(certain_workloads(), st.floats(0.2, 3.0), st.floats(0.2, 3.0))
@examples(15, explore=60)
def test_it_finds_a_plan_within_both_limits_if_and_only_if_there_is_one(
    workload: Workload, tightness: float, thrift: float
) -> None:
    assume(number_of_plans(workload) <= MOST_PLANS)
    tried = try_all(make_case(workload).evaluator)
    deadline = tightness * min(one.jct_s for one in tried)
    budget = thrift * min(one.cost_usd for one in tried)
    assume(budget > 0)
    fitting = [
        one for one in tried if one.jct_s <= deadline * (1 + 1e-9) and one.cost_usd <= budget * (1 + 1e-9)
    ]
    for objective in Objective:
        solution = plan_exact(
            make_case(workload, deadline_s=deadline, budget_usd=budget, objective=objective)
        )
        assert (solution is not None) == bool(fitting)


@given(certain_workloads(), st.data())
@examples(7, explore=30)
def test_a_fixed_cluster_holds_all_its_nodes_and_is_planned_optimally(
    workload: Workload, data: st.DataObject
) -> None:
    nodes = workload.cluster.max_nodes
    fixed = replace(workload, cluster=replace(workload.cluster, fixed=True), node_ages_s=())
    assume(number_of_plans(fixed) <= MOST_PLANS)
    tried = [
        one
        for one in try_all(make_case(fixed).evaluator)
        if all(stage.nodes_held == nodes for stage in one.plan.stages)
    ]
    deadline = data.draw(st.sampled_from(sorted({one.jct_s for one in tried})))
    best = min(one.cost_usd for one in tried if one.jct_s <= deadline * (1 + 1e-9))
    solution = plan_exact(make_case(fixed, deadline_s=deadline))
    assert solution is not None
    assert {stage.nodes_held for stage in solution.plan.stages} == {nodes}
    assert solution.outcome.mean_cost_usd == near(best)


def calm_workload(*shape: tuple[int, int], cluster: ClusterTerms, iteration_s: float = 100.0) -> Workload:
    return Workload(
        stages=tuple(Stage(trials=trials, iterations=iterations) for trials, iterations in shape),
        profile=Profile(iteration=Constant(iteration_s), speedup=Speedup.of({2: 1.6, 4: 2.2})),
        cluster=cluster,
    )


def held(workload: Workload, deadline_s: float) -> list[int]:
    solution = plan_exact(make_case(workload, deadline_s=deadline_s))
    assert solution is not None
    return [stage.nodes_held for stage in solution.plan.stages]


def test_nodes_are_held_through_a_small_stage_when_booting_again_is_dearer() -> None:
    slow = ClusterTerms(slots_per_node=1, max_nodes=4, price_per_hour=36.0, init=Constant(300.0))
    quick = replace(slow, init=Constant(0.0))
    shape = ((4, 2), (2, 1), (4, 2))
    assert held(calm_workload(*shape, cluster=slow), 800.0) == [4, 4, 4]
    assert held(calm_workload(*shape, cluster=quick), 500.0) == [4, 2, 4]


def test_what_was_held_before_may_be_kept_though_no_later_stage_uses_that_number() -> None:
    # Found by brute force: three nodes stay while two are used, because each new node costs data.
    workload = Workload(
        stages=(
            Stage(trials=5, iterations=1),
            Stage(trials=2, iterations=2),
            Stage(trials=2, iterations=3),
            Stage(trials=1, iterations=3),
        ),
        profile=Profile(
            iteration=Constant(1.0),
            speedup=Speedup.of({2: 1.18696, 4: 1.62020}),
            save=Constant(1.0),
            sync=Constant(3.0),
        ),
        cluster=ClusterTerms(
            slots_per_node=2,
            max_nodes=4,
            price_per_hour=36.0,
            minimum_charge_s=0.0,
            data_usd_per_node=0.1,
        ),
        node_ages_s=(10.0,),
    )
    case = make_case(workload, budget_usd=0.9805492371, objective=Objective.TIME)
    solution = plan_exact(case)
    assert solution is not None
    assert [stage.nodes_held for stage in solution.plan.stages] == [3, 3, 4, 2]


def test_the_minimum_charge_makes_short_lived_nodes_dear() -> None:
    cluster = ClusterTerms(slots_per_node=1, max_nodes=8, price_per_hour=36.0, minimum_charge_s=0.0)
    shape = ((8, 1), (1, 20))
    free = calm_workload(*shape, cluster=cluster, iteration_s=10.0)
    billed = calm_workload(*shape, cluster=replace(cluster, minimum_charge_s=60.0), iteration_s=10.0)
    assert held(free, 400.0) == [8, 1]
    assert held(billed, 400.0)[0] < 8


def test_no_gang_fits_means_no_plan() -> None:
    tiny = ClusterTerms(slots_per_node=1, max_nodes=1, price_per_hour=1.0)
    case = make_case(calm_workload((2, 1), cluster=tiny))
    assert plan_exact(replace(case, options=((),))) is None
    assert exact_plans(replace(case, options=((),))).plans == ()


def test_by_function_no_more_nodes_are_held_than_some_stage_needs() -> None:
    cluster = ClusterTerms(
        slots_per_node=4, max_nodes=64, price_per_hour=36.0, billing=Billing.FUNCTION, init=Constant(20.0)
    )
    solution = plan_exact(make_case(calm_workload((64, 4), (8, 8), (1, 40), cluster=cluster)))
    assert solution is not None
    used = [stage.allocation.nodes for stage in solution.plan.stages]
    assert solution.plan.peak_nodes == max(used)


def test_surplus_nodes_that_wait_while_others_are_launched_are_not_free() -> None:
    # Three nodes are as cheap as two in the first stage, but the third waits, billed, in the next queue.
    waiting = Workload(
        stages=(Stage(trials=6, iterations=3), Stage(trials=4, iterations=5)),
        profile=Profile(iteration=Constant(60.0), speedup=Speedup.of({})),
        cluster=ClusterTerms(slots_per_node=1, max_nodes=4, price_per_hour=3600.0, queue=Constant(30.0)),
    )
    assert held(waiting, 900.0) == [2, 4]


def test_nodes_are_kept_so_that_fewer_young_ones_have_to_go_later() -> None:
    # Three kept, five needed, two kept after that: with three at hand no new node is released young.
    workload = Workload(
        stages=(
            Stage(trials=1, iterations=7),
            Stage(trials=5, iterations=1),
            Stage(trials=2, iterations=6),
        ),
        profile=Profile(iteration=Constant(10.0), speedup=Speedup.of({})),
        cluster=ClusterTerms(slots_per_node=1, max_nodes=5, price_per_hour=3600.0, minimum_charge_s=100.0),
        node_ages_s=(1000.0,) * 4,
    )
    assert held(workload, 140.0) == [3, 5, 2]


def test_gangs_on_fewer_nodes_are_kept_on_fewer_nodes() -> None:
    """After a first stage on two nodes, gangs can stay only on two. Such a plan is cheaper up to the second
    stage than one that is on one node throughout, and dearer in the end."""
    cluster = ClusterTerms(slots_per_node=2, max_nodes=2, price_per_hour=3600.0, minimum_charge_s=0.0)
    workload = calm_workload((4, 4), (2, 1), (2, 20), cluster=cluster, iteration_s=10.0)
    profile = replace(workload.profile, startup=Constant(30.0), speedup=Speedup.of({}))
    workload = replace(workload, profile=profile)
    solution = plan_exact(make_case(workload, deadline_s=340.0))
    tried = [one for one in try_all(make_case(workload).evaluator) if one.jct_s <= 340.0]
    assert solution is not None
    assert min(one.cost_usd for one in tried) == near(380.0)
    assert solution.outcome.mean_cost_usd == near(380.0)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("billing", Billing)
def test_more_nodes_at_hand_than_allowed_are_released(billing: Billing, fixed: bool) -> None:
    """By function, with `nodes`, a stage that uses fewer than all of them had no plan."""
    terms = ClusterTerms(slots_per_node=1, max_nodes=2, price_per_hour=36.0, billing=billing, fixed=fixed)
    workload = replace(calm_workload((4, 2), (1, 2), cluster=terms), node_ages_s=(500.0,) * 5)
    assert max(held(workload, 5000.0)) <= 2


@pytest.mark.parametrize("seed", range(3))
def test_a_short_campaign_misses_nothing(seed: int) -> None:
    """`python -m tests.planning.campaign` has thousands of these jobs."""
    rng = random.Random(seed)
    jobs = (random_workload(rng) for _ in range(60))
    few = [job for job in jobs if 0 < number_of_plans(job) <= 300][:12]
    assert [miss for job in few for miss in misses(job, rng)] == []
