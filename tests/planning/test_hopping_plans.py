"""Planning where the models hop: `exact` against brute force, every planner, and what is said about it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elastune.hopping.partitions import Hopping
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant, LogNormal
from elastune.model.limits import GangLimits, Limit, Limits, Objective
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import hyperband, successive_halving
from elastune.planning.infeasible import NoPlanError
from elastune.planning.planners.exact import exact_plans, plan_exact
from elastune.planning.planners.registry import PLANNERS
from elastune.planning.prediction.plan import Workload
from elastune.planning.problem import Problem, StartState
from elastune.planning.quoting import QuoteRequest, make_quote
from tests.planning.brute_force import MOST_PLANS, frontier_of, make_case, number_of_plans, try_all
from tests.planning.hopping_workloads import hopping
from tests.planning.test_uncertainty import SHORTFALL
from tests.thoroughness import examples
from tests.workloads import certain_workloads, uncertain_workloads

JOB = Problem(
    specs=(successive_halving(trials=32, min_iterations=1, max_iterations=50, eta=3),),
    profile=Profile(
        iteration=LogNormal(60.0, 5.0),
        speedup=Speedup.of({2: 1.89, 4: 3.63, 8: 6.67}),
        spread=0.05,
        save=Constant(1.0),
    ),
    cluster=ClusterTerms(
        slots_per_node=4, max_nodes=16, price_per_hour=12.24, queue=Constant(15.0), init=Constant(15.0)
    ),
    limits=Limits(deadline_s=1300.0),
    hopping=Hopping(partitions=16),
)
CALM = replace(JOB, profile=replace(JOB.profile, iteration=Constant(60.0), spread=0.0))


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-9, abs=1e-9)


@given(hopping(certain_workloads()), st.data())
@examples(8, explore=80)
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


@given(hopping(certain_workloads()), st.data())
@examples(6, explore=50)
def test_no_plan_is_faster_for_the_budget(workload: Workload, data: st.DataObject) -> None:
    assume(number_of_plans(workload) <= MOST_PLANS)
    tried = try_all(make_case(workload).evaluator)
    budget = data.draw(st.sampled_from(sorted({one.cost_usd for one in tried})))
    best = min(one.jct_s for one in tried if one.cost_usd <= budget * (1 + 1e-9))
    solution = plan_exact(make_case(workload, budget_usd=budget, objective=Objective.TIME))
    assert solution is not None
    assert solution.outcome.mean_jct_s == near(best)
    assert solution.outcome.mean_cost_usd <= budget * (1 + 1e-9)


@given(hopping(certain_workloads()))
@examples(5, explore=40)
def test_the_frontier_is_the_whole_frontier(workload: Workload) -> None:
    assume(number_of_plans(workload) <= MOST_PLANS)
    case = make_case(workload)
    found = exact_plans(case)
    assert found.complete
    outcomes = [case.evaluator.evaluate(plan) for plan in found.plans]
    expected = frontier_of(try_all(case.evaluator))
    assert [outcome.mean_jct_s for outcome in outcomes] == near([time for time, _ in expected])  # type: ignore[arg-type]
    assert [outcome.mean_cost_usd for outcome in outcomes] == near([cost for _, cost in expected])  # type: ignore[arg-type]


@given(hopping(uncertain_workloads(most_nodes=4)), st.data())
@examples(3, explore=30)
def test_it_is_as_cheap_as_brute_force_on_the_same_samples(workload: Workload, data: st.DataObject) -> None:
    assume(number_of_plans(workload) <= 600)
    tried = try_all(make_case(workload).evaluator)
    deadline = data.draw(st.sampled_from(sorted({one.outcome.jct_quantile_s(0.95) for one in tried})))
    case = make_case(workload, deadline_s=deadline)
    best = min(one.cost_usd for one in tried if case.limits.keep(one.outcome))
    solution = plan_exact(case)
    assert solution is not None
    assert case.limits.keep(solution.outcome)
    assert solution.outcome.mean_cost_usd <= best * SHORTFALL
    assert solution.lower_bound is not None
    assert solution.lower_bound <= best * 1.01


@given(hopping(certain_workloads()))
@examples(3, explore=30)
def test_every_planner_makes_plans_that_keep_the_cluster(workload: Workload) -> None:
    case = make_case(workload)
    for name, planner in PLANNERS.items():
        plans = planner.plans(case).plans
        assert plans, name
        for plan in plans:
            assert plan.peak_nodes <= workload.cluster.max_nodes
            assert all(stage.allocation.slots_per_trial == 1 for stage in plan.stages)
        assert planner.solve(case) is not None, name


def test_all_planners_keep_the_deadline_and_exact_is_cheapest() -> None:
    calmer = replace(JOB, limits=Limits(deadline_s=1800.0))
    quotes = {name: make_quote(calmer, QuoteRequest(planner=name)) for name in PLANNERS}
    assert all(quote.jct_quantile_seconds <= 1800.0 for quote in quotes.values())
    assert all(quote.cost >= quotes["exact"].cost * (1 - 1e-9) for quote in quotes.values())
    bound = quotes["exact"].lower_bound
    assert bound is not None
    assert 0.9 * quotes["exact"].cost <= bound <= quotes["exact"].cost


def test_a_quote_tells_workers_and_manner() -> None:
    quote = make_quote(CALM)
    assert quote.optimal
    assert [stage.manner for stage in quote.stages] == ["hopping", "hopping", "together", "together"]
    assert all(stage.slots == min(4 * stage.nodes, 16) for stage in quote.stages)
    stages = json.loads(json.dumps(quote.to_dict()))["stages"]
    assert [stage["manner"] for stage in stages] == ["hopping", "hopping", "together", "together"]
    gangs = make_quote(replace(CALM, hopping=None)).to_dict()["stages"]
    assert isinstance(gangs, list)
    assert not any("manner" in stage for stage in gangs)


def test_more_nodes_than_copies_of_the_data_are_never_held() -> None:
    rushed = replace(CALM, limits=Limits(budget_usd=1000.0), hopping=Hopping(partitions=8))
    single = make_quote(rushed)
    assert single.peak_nodes == 2
    replicated = make_quote(replace(rushed, hopping=Hopping(partitions=8, replicas=2)))
    assert replicated.peak_nodes == 4
    assert replicated.stages[0].seconds < single.stages[0].seconds


def test_where_nothing_was_measured_no_money_is_spent_on_hope() -> None:
    unmeasured = replace(
        CALM, profile=replace(CALM.profile, speedup=Speedup.of({})), limits=Limits(budget_usd=99)
    )
    last = make_quote(unmeasured).stages[-1]
    assert (last.trials, last.nodes, last.manner) == (1, 1, "hopping")
    assert last.seconds >= 37 * 60.0


def test_a_trial_that_may_have_one_slot_only_hops() -> None:
    quote = make_quote(replace(CALM, gangs=GangLimits(max_slots=1), limits=Limits(deadline_s=7200.0)))
    assert {stage.manner for stage in quote.stages} == {"hopping"}


def test_by_function_hopping_costs_the_training_alone() -> None:
    function = replace(
        CALM, cluster=replace(CALM.cluster, billing=Billing.FUNCTION), gangs=GangLimits(max_slots=1)
    )
    quote = make_quote(replace(function, limits=Limits()))
    work_s = sum(stage.trials * stage.iterations * (60.0 + 1.0) for stage in quote.stages)
    assert quote.cost == pytest.approx(work_s * function.cluster.slot_usd_per_s)


def test_planning_again_in_the_middle_of_a_stage() -> None:
    start = StartState(stage=1, work_left=(3, 1, 2), node_ages_s=(100.0,))
    quote = make_quote(replace(CALM, starts=(start,), limits=Limits(deadline_s=7200.0)))
    assert [stage.trials for stage in quote.stages] == [3, 3, 1]
    assert quote.stages[0].iterations == 3


def test_brackets_share_the_cluster() -> None:
    both = replace(JOB, specs=hyperband(max_iterations=9, eta=3), limits=Limits(deadline_s=3000.0))
    quote = make_quote(both)
    assert quote.jct_quantile_seconds <= 3000.0
    assert quote.peak_nodes <= 16


@pytest.mark.parametrize("limits", [Limits(deadline_s=600.0), Limits(budget_usd=1.0)])
def test_what_would_fit_fits(limits: Limits) -> None:
    for nodes in (16, 1):
        problem = replace(CALM, limits=limits, cluster=replace(CALM.cluster, max_nodes=nodes))
        with pytest.raises(NoPlanError) as caught:
            make_quote(problem)
        for remedy in caught.value.diagnosis.remedies:
            changed = Limits(
                deadline_s=remedy.deadline_s or limits.deadline_s,
                budget_usd=remedy.budget_usd or limits.budget_usd,
            )
            assert make_quote(replace(problem, limits=changed)).cost > 0


def test_a_deadline_that_more_workers_could_meet() -> None:
    with pytest.raises(NoPlanError) as caught:
        make_quote(replace(JOB, cluster=replace(JOB.cluster, max_nodes=1)))
    assert caught.value.diagnosis.binding is Limit.MAX_NODES
    assert "would fit: max_nodes: " in str(caught.value)


def test_too_few_nodes_for_all_brackets_are_told_without_gangs() -> None:
    crowded = replace(
        CALM,
        specs=hyperband(max_iterations=27, eta=3),
        cluster=replace(JOB.cluster, max_nodes=3),
        limits=Limits(),
    )
    with pytest.raises(NoPlanError, match="3 nodes are too few for one node per bracket") as caught:
        make_quote(crowded)
    assert "gang" not in str(caught.value)
    assert [remedy.max_nodes for remedy in caught.value.diagnosis.remedies] == [4]
