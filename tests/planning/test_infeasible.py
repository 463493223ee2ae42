"""When nothing fits, the answer says what binds and what would fit; and what would fit does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant, LogNormal
from elastune.model.limits import Limit, Limits
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import hyperband, successive_halving
from elastune.planning.infeasible import NoPlanError, Remedy
from elastune.planning.problem import Problem
from elastune.planning.quoting import QuoteRequest, make_quote

SAMPLES = 512
JOB = Problem(
    specs=(successive_halving(trials=32, min_iterations=1, max_iterations=50, eta=3),),
    profile=Profile(
        iteration=LogNormal(60.0, 5.0), speedup=Speedup.of({2: 1.89, 4: 3.63, 8: 6.67}), spread=0.05
    ),
    cluster=ClusterTerms(
        slots_per_node=4, max_nodes=64, price_per_hour=12.24, queue=Constant(15.0), init=Constant(15.0)
    ),
)


def refusal(problem: Problem, planner: str = "exact") -> NoPlanError:
    with pytest.raises(NoPlanError) as caught:
        make_quote(problem, QuoteRequest(planner=planner, samples=SAMPLES))
    return caught.value


def limited(**limits: float) -> Problem:
    return replace(JOB, limits=Limits(**limits))


def fits(problem: Problem, remedy: Remedy, planner: str = "exact") -> bool:
    limits = replace(
        problem.limits,
        deadline_s=remedy.deadline_s or problem.limits.deadline_s,
        budget_usd=remedy.budget_usd or problem.limits.budget_usd,
    )
    cluster = problem.cluster
    if remedy.max_nodes is not None:
        cluster = replace(cluster, max_nodes=remedy.max_nodes, fixed=False)
    return (
        make_quote(
            replace(problem, limits=limits, cluster=cluster),
            QuoteRequest(planner=remedy.planner or planner, samples=SAMPLES),
        )
        is not None
    )


def test_a_deadline_that_no_cluster_can_meet() -> None:
    error = refusal(limited(deadline_s=300.0))
    assert error.diagnosis.binding is Limit.DEADLINE
    assert error.diagnosis.fastest is not None
    assert error.diagnosis.fastest.jct_quantile_seconds > 300.0
    assert str(error).startswith(
        "the exact planner finds no plan that keeps the deadline of 5m00s with 95% confidence.\n"
        "The deadline binds"
    )


def test_a_deadline_that_more_nodes_could_meet() -> None:
    error = refusal(replace(limited(deadline_s=600.0), cluster=replace(JOB.cluster, max_nodes=2)))
    assert error.diagnosis.binding is Limit.MAX_NODES
    assert [remedy.max_nodes is not None for remedy in error.diagnosis.remedies] == [False, True]
    assert f"would fit: max_nodes: {error.diagnosis.remedies[1].max_nodes}" in str(error)


def test_a_budget_below_the_cheapest_plan() -> None:
    error = refusal(limited(budget_usd=1.0))
    assert error.diagnosis.binding is Limit.BUDGET
    assert "no plan found is that cheap, however long it takes" in str(error)


def test_limits_that_can_be_kept_one_by_one_but_not_together() -> None:
    slow = make_quote(limited(deadline_s=3000.0), QuoteRequest(samples=SAMPLES))
    error = refusal(limited(deadline_s=700.0, budget_usd=slow.cost_quantile))
    assert error.diagnosis.binding is Limit.BUDGET
    assert "no plan found that keeps the deadline is that cheap" in str(error)
    moved = [(r.deadline_s is not None, r.budget_usd is not None) for r in error.diagnosis.remedies]
    assert moved == [(True, False), (False, True)]


@pytest.mark.parametrize(
    "planner", ["exact", *(pytest.param(name, marks=pytest.mark.slow) for name in ("greedy", "static"))]
)
@pytest.mark.parametrize(
    "limits",
    [
        {"deadline_s": 300.0},
        {"budget_usd": 1.0},
        {"deadline_s": 100.0, "budget_usd": 1.0},
        pytest.param({"deadline_s": 700.0, "budget_usd": 8.0}, marks=pytest.mark.slow),
    ],
)
def test_what_would_fit_fits(limits: dict[str, float], planner: str) -> None:
    for nodes in (64, 2):
        problem = replace(limited(**limits), cluster=replace(JOB.cluster, max_nodes=nodes))
        remedies = refusal(problem, planner).diagnosis.remedies
        assert remedies
        assert all(fits(problem, remedy, planner) for remedy in remedies)


def test_hyperband_needs_a_node_for_every_bracket() -> None:
    crowded = replace(
        JOB, specs=hyperband(max_iterations=27, eta=3), cluster=replace(JOB.cluster, max_nodes=3)
    )
    error = refusal(crowded)
    assert error.diagnosis.binding is Limit.MAX_NODES
    assert error.diagnosis.fastest is None
    assert [remedy.max_nodes for remedy in error.diagnosis.remedies] == [4]


def test_a_fixed_cluster_that_is_too_small_is_told_so() -> None:
    problem = replace(limited(deadline_s=700.0), cluster=replace(JOB.cluster, max_nodes=1, fixed=True))
    error = refusal(problem)
    assert error.diagnosis.binding is Limit.MAX_NODES
    assert "nodes binds: no plan found on 1 node is that fast" in str(error)
    assert "instead of nodes" in str(error)
    assert all(fits(problem, remedy) for remedy in error.diagnosis.remedies)


def test_where_another_planner_finds_none_that_of_exact_is_named() -> None:
    """`static` said that no plan was that cheap."""
    cheapest = make_quote(limited(deadline_s=1500.0), QuoteRequest(samples=SAMPLES))
    error = refusal(limited(deadline_s=1500.0, budget_usd=cheapest.cost_quantile), "static")
    assert error.diagnosis.binding is Limit.BUDGET
    remedy = error.diagnosis.remedies[0]
    assert remedy.planner == "exact"
    assert remedy.forecast.cost == pytest.approx(cheapest.cost)
    assert "would fit: planner: exact (mean" in str(error)


def test_the_planner_that_was_asked_is_named() -> None:
    assert "the static planner finds no plan" in str(refusal(limited(deadline_s=300.0), "static"))
