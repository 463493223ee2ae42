"""Hyperband: brackets side by side under common limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant, LogNormal
from elastune.model.limits import Limits, Objective
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Spec, Stage, hyperband
from elastune.planning import brackets
from elastune.planning.infeasible import NoPlanError
from elastune.planning.problem import Problem
from elastune.planning.quoting import QuoteRequest, make_quote

CALM = Problem(
    specs=hyperband(max_iterations=27, eta=3),
    profile=Profile(iteration=Constant(30.0), speedup=Speedup.of({2: 1.8, 4: 3.1}), startup=Constant(2.0)),
    cluster=ClusterTerms(slots_per_node=4, max_nodes=64, price_per_hour=10.0, init=Constant(20.0)),
    limits=Limits(deadline_s=600.0),
)
NOISY = replace(CALM, profile=replace(CALM.profile, iteration=LogNormal(30.0, 5.0), spread=0.1))


def test_every_bracket_is_planned_as_if_it_were_alone() -> None:
    quote = make_quote(CALM)
    alone = [make_quote(replace(CALM, specs=(spec,))) for spec in CALM.specs]
    assert quote.cost == pytest.approx(sum(one.cost for one in alone))
    assert quote.jct_seconds == pytest.approx(max(one.jct_seconds for one in alone))
    assert quote.optimal
    assert quote.lower_bound == pytest.approx(quote.cost)
    assert [bracket.name for bracket in quote.brackets] == [
        "bracket 3",
        "bracket 2",
        "bracket 1",
        "bracket 0",
    ]


def test_together_the_brackets_keep_the_deadline_at_the_confidence() -> None:
    quote = make_quote(NOISY)
    assert quote.jct_quantile_seconds <= 600.0
    assert not quote.optimal
    assert quote.lower_bound is not None
    assert 0 < quote.lower_bound <= quote.cost


def test_for_a_budget_the_frontiers_are_added_at_equal_time() -> None:
    frontier = make_quote(replace(CALM, limits=Limits()), QuoteRequest(frontier=True)).frontier
    assert frontier is not None
    middle = frontier[len(frontier) // 2]
    quote = make_quote(replace(CALM, limits=Limits(budget_usd=middle.cost)))
    assert quote.objective is Objective.TIME
    assert quote.jct_seconds == pytest.approx(middle.jct_seconds)
    assert quote.cost <= middle.cost * (1 + 1e-9)
    assert quote.optimal


def test_a_budget_holds_at_the_confidence_for_all_brackets_together() -> None:
    free = make_quote(replace(NOISY, limits=Limits()), QuoteRequest(objective=Objective.COST))
    quote = make_quote(replace(NOISY, limits=Limits(budget_usd=free.cost_quantile * 1.1)))
    assert quote.cost_quantile <= free.cost_quantile * 1.1
    assert quote.jct_seconds <= free.jct_seconds


def test_a_shared_cluster_that_is_too_small_is_split_and_optimality_is_not_claimed() -> None:
    roomy = make_quote(replace(CALM, limits=Limits(deadline_s=800.0)))
    tight = replace(
        CALM,
        limits=Limits(deadline_s=800.0),
        cluster=replace(CALM.cluster, max_nodes=roomy.peak_nodes - 1),
    )
    quote = make_quote(tight)
    assert quote.peak_nodes <= roomy.peak_nodes - 1
    assert not quote.optimal
    assert quote.jct_seconds <= 800.0
    assert quote.cost >= roomy.cost


def test_what_is_tried_on_few_shares_of_a_cluster_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all shares these brackets end sooner."""
    small = replace(
        CALM,
        specs=tuple(
            Spec(name=str(trials), stages=(Stage(trials=trials, iterations=iterations),))
            for trials, iterations in ((3, 2), (2, 5))
        ),
        profile=Profile(iteration=Constant(20.0), speedup=Speedup.of({2: 1.8, 3: 2.4})),
        cluster=ClusterTerms(slots_per_node=2, max_nodes=6, price_per_hour=10.0, minimum_charge_s=0.0),
        limits=Limits(),
    )
    soonest = make_quote(small, QuoteRequest(objective=Objective.TIME))
    monkeypatch.setattr(brackets, "MAX_SHARES", 2)
    quote = make_quote(small, QuoteRequest(objective=Objective.TIME))
    assert quote.jct_seconds > soonest.jct_seconds
    assert not quote.optimal
    assert quote.lower_bound is None


def test_the_split_also_keeps_a_budget() -> None:
    cluster = replace(CALM.cluster, max_nodes=5)
    quote = make_quote(replace(CALM, limits=Limits(budget_usd=40.0), cluster=cluster))
    assert quote.peak_nodes <= 5
    assert quote.cost_quantile <= 40.0


def test_no_split_can_do_the_impossible() -> None:
    with pytest.raises(NoPlanError) as caught:
        make_quote(replace(CALM, limits=Limits(deadline_s=60.0)))
    assert caught.value.diagnosis.fastest is not None
    assert caught.value.diagnosis.fastest.jct_seconds > 60.0


@pytest.mark.parametrize("planner", ["greedy", "static", "naive-elastic"])
@pytest.mark.parametrize("limits", [Limits(deadline_s=800.0), Limits(budget_usd=60.0)])
def test_other_planners_are_never_better(planner: str, limits: Limits) -> None:
    problem = replace(CALM, limits=limits)
    exact, other = make_quote(problem), make_quote(problem, QuoteRequest(planner=planner))
    if exact.objective is Objective.COST:
        assert exact.cost <= other.cost * (1 + 1e-9)
    else:
        assert exact.jct_seconds <= other.jct_seconds * (1 + 1e-9)


def test_more_money_never_makes_it_slower() -> None:
    crowded = replace(CALM, cluster=replace(CALM.cluster, max_nodes=14))
    times = []
    for budget in (20.0, 25.0, 30.0, 40.0, 80.0, 1000.0):
        quote = make_quote(replace(crowded, limits=Limits(budget_usd=budget)))
        assert quote.peak_nodes <= 14
        times.append(quote.jct_seconds)
    assert times == sorted(times, reverse=True)


def test_a_fixed_cluster_is_paid_for_until_the_last_bracket_ends() -> None:
    fixed = replace(CALM, cluster=replace(CALM.cluster, max_nodes=16, fixed=True), limits=Limits())
    quote = make_quote(fixed)
    held_s = quote.jct_seconds - 0.0
    assert quote.cost == pytest.approx(16 * held_s * 10.0 / 3600)
    assert quote.lower_bound is None
    assert not quote.optimal


@pytest.mark.parametrize("minimum_charge_s", [0.0, 200.0, 5000.0])
def test_a_fixed_cluster_costs_the_same_however_brackets_share_it(minimum_charge_s: float) -> None:
    """Nodes whose bracket ended within their minimum charge were charged twice, unused ones too little."""
    cluster = replace(CALM.cluster, max_nodes=12, fixed=True, queue=Constant(5.0))
    cluster = replace(cluster, minimum_charge_s=minimum_charge_s)
    quote = make_quote(replace(CALM, cluster=cluster))
    seconds = max(minimum_charge_s, quote.jct_seconds - 5.0)
    assert quote.cost == pytest.approx(12 * 10.0 / 3600 * seconds)


def test_the_frontier_stays_within_the_cluster() -> None:
    crowded = replace(CALM, cluster=replace(CALM.cluster, max_nodes=9), limits=Limits())
    frontier = make_quote(crowded, QuoteRequest(frontier=True)).frontier
    assert frontier
    assert all(point.peak_nodes <= 9 for point in frontier)


@pytest.mark.parametrize("limits", [Limits(), Limits(deadline_s=1000.0), Limits(budget_usd=16.0)])
def test_on_a_fixed_cluster_the_fastest_brackets_are_the_cheapest(limits: Limits) -> None:
    # Each bracket on one node would take 909 s and 16 nodes for that long $40.39.
    fixed = replace(CALM, cluster=replace(CALM.cluster, max_nodes=16, fixed=True), limits=limits)
    cheapest = make_quote(fixed, QuoteRequest(objective=Objective.COST))
    fastest = make_quote(fixed, QuoteRequest(objective=Objective.TIME))
    assert cheapest.cost == pytest.approx(fastest.cost)
    assert cheapest.cost < 16.0


def test_all_nodes_of_a_fixed_cluster_download_the_data() -> None:
    cluster = replace(CALM.cluster, max_nodes=16, fixed=True, data_usd_per_node=1.0)
    quote = make_quote(replace(CALM, cluster=cluster, limits=Limits()))
    assert quote.cost == pytest.approx(16 * (1.0 + quote.jct_seconds * 10.0 / 3600))


def test_the_soonest_end_is_found_however_near_the_deadline() -> None:
    crowded = replace(CALM, cluster=replace(CALM.cluster, max_nodes=8), limits=Limits())
    soonest = make_quote(crowded, QuoteRequest(objective=Objective.TIME))
    by = Limits(deadline_s=soonest.jct_seconds * 1.01, budget_usd=soonest.cost)
    quote = make_quote(replace(crowded, limits=by), QuoteRequest(objective=Objective.TIME))
    assert quote.jct_seconds == pytest.approx(soonest.jct_seconds)
