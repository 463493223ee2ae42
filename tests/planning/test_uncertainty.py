"""Random latencies: limits hold at the confidence, and the lower bound is one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant, LogNormal
from elastune.model.limits import Limits, Objective
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Stage
from elastune.planning.planners import labels
from elastune.planning.planners.exact import plan_exact
from elastune.planning.planners.lower_bound import lower_bound
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.plan import Workload
from tests.planning.brute_force import make_case, number_of_plans, try_all, try_each
from tests.thoroughness import examples
from tests.workloads import uncertain_workloads

MOST_PLANS = 600
# How far `exact` may stay behind brute force when latencies are random: it does not claim to be optimal.
SHORTFALL = 1.02
# Boots are known by their law where the rest is known by samples.
SAMPLING_ERROR = 1.02


@given(uncertain_workloads(most_nodes=4), st.data())
@examples(10, explore=40)
def test_it_is_as_cheap_as_brute_force_on_the_same_samples(workload: Workload, data: st.DataObject) -> None:
    assume(number_of_plans(workload) <= MOST_PLANS)
    confidence = data.draw(st.sampled_from([0.5, 0.8, 0.95, 0.99]))
    tried = try_all(make_case(workload).evaluator)
    deadline = data.draw(st.sampled_from(sorted({one.outcome.jct_quantile_s(confidence) for one in tried})))
    case = make_case(workload, deadline_s=deadline, confidence=confidence)
    best = min(one.cost_usd for one in tried if case.limits.keep(one.outcome))
    solution = plan_exact(case)
    assert solution is not None
    assert case.limits.keep(solution.outcome)
    assert solution.optimal == workload.is_deterministic
    assert solution.outcome.mean_cost_usd <= best * SHORTFALL
    assert solution.lower_bound is not None
    assert solution.lower_bound <= best * 1.01


@pytest.mark.parametrize("objective", Objective)
def test_a_search_with_many_labels_is_coarse_at_first_and_finds_the_same(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = Workload(
        stages=(
            Stage(trials=16, iterations=4),
            Stage(trials=4, iterations=16),
            Stage(trials=1, iterations=40),
        ),
        profile=Profile(
            iteration=LogNormal(10.0, 2.0),
            speedup=Speedup.of({2: 1.8, 4: 3.2}),
            spread=0.3,
            startup=Constant(5.0),
        ),
        cluster=ClusterTerms(
            slots_per_node=2, max_nodes=12, price_per_hour=36.0, minimum_charge_s=60.0, init=Constant(20.0)
        ),
    )
    case = make_case(workload, objective=objective)
    by_cost = objective is Objective.COST
    case = replace(case, limits=Limits(deadline_s=600.0) if by_cost else Limits(budget_usd=16.0))
    usual = plan_exact(case)
    monkeypatch.setattr(labels, "FEW_LABELS", 20)
    large = plan_exact(case)
    assert usual is not None
    assert large is not None
    assert case.limits.keep(large.outcome)
    assert case.value(large.outcome)[0] <= case.value(usual.outcome)[0] * 1.001


@given(uncertain_workloads(most_nodes=4), st.data())
@examples(10, explore=40)
def test_it_is_as_fast_as_brute_force_for_a_budget(workload: Workload, data: st.DataObject) -> None:
    assume(number_of_plans(workload) <= MOST_PLANS)
    tried = try_all(make_case(workload).evaluator)
    budget = data.draw(st.sampled_from(sorted({one.outcome.cost_quantile_usd(0.95) for one in tried})))
    case = make_case(workload, budget_usd=budget, objective=Objective.TIME)
    best = min(one.jct_s for one in tried if case.limits.keep(one.outcome))
    solution = plan_exact(case)
    assert solution is not None
    assert case.limits.keep(solution.outcome)
    assert solution.outcome.mean_jct_s <= best * SHORTFALL
    assert solution.lower_bound is not None
    assert solution.lower_bound <= best * 1.01


NOISY = Workload(
    stages=(Stage(trials=8, iterations=2), Stage(trials=2, iterations=6), Stage(trials=1, iterations=12)),
    profile=Profile(iteration=LogNormal(30.0, 10.0), speedup=Speedup.of({2: 1.8, 4: 3.0}), spread=0.15),
    cluster=ClusterTerms(slots_per_node=2, max_nodes=8, price_per_hour=10.0, init=Constant(20.0)),
)


def test_the_promise_holds_on_fresh_samples() -> None:
    solution = plan_exact(make_case(NOISY, deadline_s=700.0, samples=4096))
    assert solution is not None
    fresh = Evaluator(NOISY, Draws(NOISY, samples=20_000, seed=99)).evaluate(solution.plan)
    assert np.mean(fresh.jct_s <= 700.0) >= 0.94


def test_more_confidence_costs_more() -> None:
    costs = []
    for confidence in (0.5, 0.9, 0.99, 0.999):
        solution = plan_exact(make_case(NOISY, deadline_s=600.0, confidence=confidence, samples=4096))
        assert solution is not None
        costs.append(solution.outcome.mean_cost_usd)
    assert costs == sorted(costs)
    assert costs[-1] > costs[0]


def test_a_budget_holds_at_the_confidence_and_not_just_in_the_mean() -> None:
    free = plan_exact(make_case(NOISY, deadline_s=700.0))
    assert free is not None
    between = (free.outcome.mean_cost_usd + free.outcome.cost_quantile_usd(0.95)) / 2
    case = make_case(NOISY, deadline_s=700.0, budget_usd=between)
    bounded = plan_exact(case)
    assert bounded is None or bounded.outcome.cost_quantile_usd(0.95) <= between


def test_two_limits_hold_together_and_not_only_each_by_itself() -> None:
    by_function = replace(NOISY, cluster=replace(NOISY.cluster, billing=Billing.FUNCTION))
    solution = plan_exact(make_case(by_function, deadline_s=700.0))
    assert solution is not None
    outcome = solution.outcome
    deadline_s, budget_usd = outcome.jct_quantile_s(0.95), outcome.cost_quantile_usd(0.95)
    limits = Limits(deadline_s=deadline_s, budget_usd=budget_usd)
    kept = (outcome.limited.jct_s <= deadline_s) & (outcome.limited.cost_usd <= budget_usd)
    assert kept.mean() < 0.94
    assert limits.keep_deadline(outcome)
    assert limits.keep_budget(outcome)
    assert not limits.keep(outcome)


def test_gangs_that_are_slower_on_average_may_be_the_ones_that_keep_the_deadline() -> None:
    """One gang of two on one node takes a tenth longer on average than two of one, and has the smaller 95 %
    quantile. Bounds that leave it out exceed the cheapest plan by half."""
    workload = Workload(
        stages=(Stage(trials=3, iterations=1),),
        profile=Profile(
            iteration=LogNormal(30.0, 28.4), speedup=Speedup.of({2: 1.5, 4: 1.92}), startup=Constant(5.0)
        ),
        cluster=ClusterTerms(slots_per_node=2, max_nodes=4, price_per_hour=36.0),
    )
    tried = try_all(make_case(workload).evaluator)
    case = make_case(workload, deadline_s=131.0)
    cheapest = min((one for one in tried if case.limits.keep(one.outcome)), key=lambda one: one.cost_usd)
    assert lower_bound(case, cheapest.outcome) <= cheapest.cost_usd
    dearer = max((one for one in tried if case.limits.keep(one.outcome)), key=lambda one: one.cost_usd)
    assert lower_bound(case, dearer.outcome) <= cheapest.cost_usd


@pytest.mark.slow
def test_the_lower_bound_holds_against_every_plan_of_a_larger_case() -> None:
    cases = [
        make_case(NOISY, deadline_s=deadline, confidence=confidence, samples=4096)
        for confidence in (0.8, 0.95, 0.99)
        for deadline in (500.0, 600.0, 800.0, 1200.0)
    ]
    cheapest = [math.inf] * len(cases)
    for tried in try_each(cases[0].evaluator):
        for place, case in enumerate(cases):
            if tried.cost_usd < cheapest[place] and case.limits.keep(tried.outcome):
                cheapest[place] = tried.cost_usd
    for case, least_usd in zip(cases, cheapest, strict=True):
        solution = plan_exact(case)
        assert (solution is None) == math.isinf(least_usd)
        if solution is not None and solution.lower_bound is not None:
            assert solution.lower_bound <= least_usd * (1 + 1e-9)
            assert solution.outcome.mean_cost_usd <= least_usd * 1.005


@given(uncertain_workloads(most_nodes=4), st.data())
@examples(10, explore=40)
def test_the_lower_bound_holds_whatever_plan_guides_it(workload: Workload, data: st.DataObject) -> None:
    assume(number_of_plans(workload) <= MOST_PLANS)
    confidence = data.draw(st.sampled_from([0.5, 0.8, 0.9, 0.95]))
    tried = try_all(make_case(workload, samples=4096).evaluator)
    guide = data.draw(st.sampled_from(tried)).outcome
    in_time = make_case(
        workload, deadline_s=guide.jct_quantile_s(confidence), confidence=confidence, samples=4096
    )
    cheapest = min(one.cost_usd for one in tried if in_time.limits.keep(one.outcome))
    assert lower_bound(in_time, guide) <= cheapest * SAMPLING_ERROR
    in_budget = make_case(
        workload,
        budget_usd=guide.cost_quantile_usd(confidence),
        confidence=confidence,
        samples=4096,
        objective=Objective.TIME,
    )
    assume(in_budget.limits.budget_usd)
    fastest = min(one.jct_s for one in tried if in_budget.limits.keep(one.outcome))
    assert lower_bound(in_budget, guide) <= fastest * SAMPLING_ERROR
