"""`exact <= greedy <= static` on jobs too large for brute force, and what each planner is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant, LogNormal
from elastune.model.limits import GangLimits, Limits, Objective
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import successive_halving
from elastune.planning.planners.baselines import plan_greedy, plan_naive_elastic
from elastune.planning.planners.exact import plan_exact
from elastune.planning.planners.registry import PLANNERS
from elastune.planning.planners.static import plan_static
from elastune.planning.prediction.plan import Workload
from elastune.planning.problem import Case, build_case
from tests.thoroughness import examples

RESNET50 = Speedup.of({2: 1.87, 4: 3.42, 8: 5.60})

COMPARED = [name for name, planner in PLANNERS.items() if planner.compared]


@st.composite
def large_cases(draw: st.DrawFn, *, certain: bool) -> Case:
    spec = successive_halving(
        trials=draw(st.integers(2, 300)),
        min_iterations=draw(st.integers(1, 4)),
        max_iterations=draw(st.integers(8, 1000)),
        eta=draw(st.integers(2, 4)),
    )
    seconds = draw(st.floats(1.0, 120.0))
    cluster = ClusterTerms(
        slots_per_node=draw(st.sampled_from([1, 4, 8])),
        max_nodes=draw(st.integers(1, 120)),
        price_per_hour=12.24,
        billing=draw(st.sampled_from(Billing)),
        queue=Constant(draw(st.sampled_from([0.0, 30.0]))),
        init=Constant(draw(st.sampled_from([0.0, 15.0, 200.0]))),
        data_usd_per_node=draw(st.sampled_from([0.0, 1.5])),
    )
    profile = Profile(
        iteration=Constant(seconds) if certain else LogNormal(seconds, seconds * 0.2),
        speedup=RESNET50,
        spread=0.0 if certain else 0.1,
        startup=Constant(2.0),
    )
    workload = Workload(stages=spec.stages, profile=profile, cluster=cluster)
    free = replace(build_case(workload, GangLimits(), samples=1024, seed=3), objective=Objective.TIME)
    fastest = plan_exact(free)
    assert fastest is not None
    deadline = fastest.outcome.jct_quantile_s(0.95) * draw(st.floats(1.0, 4.0))
    return replace(free, objective=Objective.COST, limits=Limits(deadline_s=deadline))


def cost(case: Case, name: str) -> float:
    solution = PLANNERS[name].solve(case)
    if solution is None:
        return float("inf")
    assert case.limits.keep(solution.outcome)
    return solution.outcome.mean_cost_usd


@given(large_cases(certain=True))
@examples(5, explore=40)
def test_exact_is_never_dearer_than_greedy_nor_greedy_than_static(case: Case) -> None:
    exact, greedy, static, naive = (cost(case, name) for name in COMPARED)
    assert exact <= greedy * (1 + 1e-9)
    assert greedy <= static * (1 + 1e-9)
    assert exact <= naive * (1 + 1e-9)


@given(large_cases(certain=False))
@examples(2, explore=15)
def test_the_order_holds_when_latencies_are_random(case: Case) -> None:
    exact, greedy, static, naive = (cost(case, name) for name in COMPARED)
    assert exact <= greedy * (1 + 1e-9)
    assert greedy <= static * (1 + 1e-9)
    assert exact <= naive * (1 + 1e-9)


@given(large_cases(certain=True), st.floats(1.0, 3.0))
@examples(3, explore=25)
def test_exact_is_never_slower_for_a_budget(case: Case, factor: float) -> None:
    cheapest = plan_exact(replace(case, limits=Limits()))
    assert cheapest is not None
    budget = cheapest.outcome.mean_cost_usd * factor
    assume(budget > 0)
    budgeted = replace(case, limits=Limits(budget_usd=budget), objective=Objective.TIME)
    best = plan_exact(budgeted)
    assert best is not None
    for planner in (plan_greedy, plan_static, plan_naive_elastic):
        other = planner(budgeted)
        if other is not None:
            assert budgeted.limits.keep(other.outcome)
            assert best.outcome.mean_jct_s <= other.outcome.mean_jct_s * (1 + 1e-9)


def resnet101(deadline_minutes: float) -> Case:
    """The search of the paper's Tables 2 and 3, with the epoch time at which they fit each other."""
    spec = successive_halving(trials=32, min_iterations=1, max_iterations=50, eta=3)
    workload = Workload(
        stages=spec.stages,
        profile=Profile(
            iteration=Constant(105.0), speedup=Speedup.of({2: 1.89, 4: 3.63, 8: 6.67}), startup=Constant(2.0)
        ),
        cluster=ClusterTerms(
            slots_per_node=4, max_nodes=64, price_per_hour=12.24, queue=Constant(15.0), init=Constant(15.0)
        ),
    )
    case = build_case(workload, GangLimits(), samples=1, seed=0)
    return replace(case, limits=Limits(deadline_s=60 * deadline_minutes))


def test_the_plan_of_table_3_is_found() -> None:
    solution = plan_exact(resnet101(20))
    assert solution is not None
    assert [s.allocation.slots_per_trial for s in solution.plan.stages] == [1, 2, 4, 8]
    assert [s.nodes_held for s in solution.plan.stages] == [8, 5, 3, 2]


def test_the_best_fixed_cluster_has_the_six_nodes_of_the_paper() -> None:
    solution = plan_static(resnet101(20))
    assert solution is not None
    assert [s.nodes_held for s in solution.plan.stages] == [6, 6, 6, 6]


def test_naive_elastic_gives_every_trial_the_same_gang() -> None:
    solution = plan_naive_elastic(resnet101(30))
    assert solution is not None
    assert len({s.allocation.slots_per_trial for s in solution.plan.stages}) == 1
    assert all(s.nodes_held == s.allocation.nodes for s in solution.plan.stages)


def test_greedy_improves_on_static_and_stays_in_time() -> None:
    case = resnet101(20)
    greedy, static = plan_greedy(case), plan_static(case)
    assert greedy is not None
    assert static is not None
    assert greedy.outcome.mean_cost_usd < 0.7 * static.outcome.mean_cost_usd
    assert case.limits.keep(greedy.outcome)


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_says_so_when_nothing_fits(name: str) -> None:
    assert PLANNERS[name].solve(resnet101(1)) is None


@pytest.mark.parametrize("objective", Objective)
def test_every_planner_holds_all_of_a_fixed_cluster(objective: Objective) -> None:
    """Greedy for a budget came down from halves of the cluster, and was billed for those alone."""
    case = resnet101(60)
    workload = replace(case.evaluator.workload, cluster=replace(case.evaluator.workload.cluster, fixed=True))
    fixed = build_case(workload, GangLimits(), samples=1, seed=0)
    fixed = replace(fixed, limits=case.limits, objective=objective)
    for name, planner in PLANNERS.items():
        solution = planner.solve(fixed)
        assert solution is not None, name
        for plan in (solution.plan, *planner.plans(fixed).plans):
            assert {stage.nodes_held for stage in plan.stages} == {64}, name
