"""When nothing fits, the answer says what binds and what would fit; and what would fit does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from elastune.cluster import ClusterTerms
from elastune.planning import Limit, Limits, NoPlanError, Problem, Request, make_quote
from elastune.profiles import Constant, LogNormal, Profile, Speedup
from elastune.spec import successive_halving

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
        make_quote(problem, Request(planner=planner))
    return caught.value


def limited(**limits: float) -> Problem:
    return replace(JOB, limits=Limits(**limits))


def test_a_deadline_that_no_cluster_can_meet() -> None:
    error = refusal(limited(deadline_s=300.0))
    assert error.diagnosis.binding is Limit.DEADLINE
    assert error.diagnosis.fastest is not None
    assert error.diagnosis.fastest.jct_quantile_seconds > 300.0
    assert str(error).startswith(
        "no plan of the exact planner keeps the deadline of 5m00s with 95% confidence.\nThe deadline binds"
    )


def test_a_deadline_that_more_nodes_could_meet() -> None:
    error = refusal(replace(limited(deadline_s=600.0), cluster=replace(JOB.cluster, max_nodes=2)))
    assert error.diagnosis.binding is Limit.MAX_NODES
    assert error.diagnosis.with_more_nodes is not None
    enough = error.diagnosis.with_more_nodes.peak_nodes
    assert f"would fit: max_nodes: {enough}" in str(error)
    assert make_quote(replace(limited(deadline_s=600.0), cluster=replace(JOB.cluster, max_nodes=enough)))


def test_a_budget_below_the_cheapest_plan() -> None:
    error = refusal(limited(budget_usd=1.0))
    assert error.diagnosis.binding is Limit.BUDGET
    assert "no plan is that cheap" in str(error)


def test_limits_that_can_be_kept_one_by_one_but_not_together() -> None:
    slow = make_quote(limited(deadline_s=3000.0))
    error = refusal(limited(deadline_s=700.0, budget_usd=slow.cost_quantile))
    assert error.diagnosis.binding is Limit.BUDGET
    assert "each limit can be kept, but not both" in str(error)


@pytest.mark.parametrize(
    "limits", [{"deadline_s": 300.0}, {"budget_usd": 1.0}, {"deadline_s": 700.0, "budget_usd": 8.0}]
)
def test_what_would_fit_fits(limits: dict[str, float]) -> None:
    message = str(refusal(limited(**limits)))
    offers = re.findall(r"would fit: (deadline|budget): \$?([\d.]+)", message)
    assert offers
    for name, value in offers:
        key = {"deadline": "deadline_s", "budget": "budget_usd"}[name]
        assert make_quote(limited(**{**limits, key: float(value)}))


def test_a_fixed_cluster_that_is_too_small_is_told_so() -> None:
    error = refusal(replace(limited(deadline_s=700.0), cluster=replace(JOB.cluster, max_nodes=1, fixed=True)))
    assert error.diagnosis.binding is Limit.MAX_NODES


def test_the_planner_that_was_asked_is_named() -> None:
    assert "no plan of the static planner" in str(refusal(limited(deadline_s=300.0), "static"))
