"""The label engine beyond what brute force shows."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.limits import GangLimits, Limits
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import successive_halving
from elastune.planning.planners import labels
from elastune.planning.planners.baselines import plan_greedy
from elastune.planning.planners.exact import plan_exact
from elastune.planning.planners.labels import Bounds, find_frontier
from elastune.planning.planners.network import build_network
from elastune.planning.prediction.plan import Workload
from elastune.planning.problem import build_case
from tests.planning.brute_force import make_case, number_of_plans, try_all
from tests.planning.campaign import random_workload
from tests.planning.test_exact_is_optimal import calm_workload
from tests.planning.test_planners_compared import resnet101


def test_bounds_cut_the_frontier_and_nothing_else() -> None:
    network = build_network(resnet101(60))
    whole = find_frontier(network)
    middle = len(whole) // 2
    cut = find_frontier(network, Bounds(time=float(whole.time[middle]), cost=float(whole.cost[2])))
    assert np.allclose(cut.time, whole.time[2 : middle + 1])
    assert np.allclose(cut.cost, whole.cost[2 : middle + 1])


def test_the_frontier_is_sorted_and_undominated() -> None:
    frontier = find_frontier(build_network(resnet101(60)))
    assert (np.diff(frontier.time) > 0).all()
    assert (np.diff(frontier.cost) < 0).all()
    assert frontier.cost_factor == 1.0


def test_with_too_many_labels_it_rounds_and_says_by_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    network = build_network(resnet101(60))
    exact = find_frontier(network)
    monkeypatch.setattr(labels, "MAX_LABELS", 12)
    rounded = find_frontier(network)
    assert rounded.cost_factor > 1.0
    for time, cost in zip(exact.time, exact.cost, strict=True):
        reachable = rounded.cost[rounded.time <= time * (1 + 1e-9)]
        assert reachable.min() <= cost * rounded.cost_factor


def test_impossible_bounds_leave_nothing() -> None:
    case = make_case(calm_workload((2, 1), cluster=resnet101(1).evaluator.workload.cluster))
    assert len(find_frontier(build_network(case), Bounds(time=1.0))) == 0


def test_what_is_claimed_stays_true_with_too_few_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "MAX_LABELS", 5)
    rng = random.Random(7)
    checked = 0
    while checked < 40:
        workload = random_workload(rng)
        if not 0 < number_of_plans(workload) <= 1_000:
            continue
        checked += 1
        case = make_case(workload)
        tried = try_all(case.evaluator)
        deadline = rng.choice(tried).jct_s
        cheapest = min(one.cost_usd for one in tried if one.jct_s <= deadline * (1 + 1e-9))
        solution = plan_exact(replace(case, limits=Limits(deadline_s=deadline)))
        assert solution is not None
        assert not solution.optimal or solution.outcome.mean_cost_usd == pytest.approx(cheapest, abs=1e-9)
        assert solution.lower_bound is None or solution.lower_bound <= cheapest * (1 + 1e-9) + 1e-9


def test_with_too_many_labels_it_is_still_not_dearer_than_greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    # With all labels it takes half a minute, and was 1.1% dearer, too.
    monkeypatch.setattr(labels, "MAX_LABELS", 2_000)
    workload = Workload(
        stages=successive_halving(trials=181, min_iterations=1, max_iterations=386, eta=2).stages,
        profile=Profile(
            iteration=Constant(1.0), speedup=Speedup.of({2: 1.87, 4: 3.42, 8: 5.60}), startup=Constant(2.0)
        ),
        cluster=ClusterTerms(slots_per_node=4, max_nodes=21, price_per_hour=12.24),
    )
    case = build_case(workload, GangLimits(), samples=1, seed=0)
    for deadline_s in (405.0, 320.0, 250.0):
        limited = replace(case, limits=Limits(deadline_s=deadline_s))
        exact, greedy = plan_exact(limited), plan_greedy(limited)
        assert exact is not None
        assert greedy is not None
        assert not exact.optimal
        assert limited.limits.keep(exact.outcome)
        assert exact.outcome.mean_cost_usd <= greedy.outcome.mean_cost_usd * (1 + 1e-9)
        assert exact.lower_bound is not None
        assert exact.lower_bound <= exact.outcome.mean_cost_usd
