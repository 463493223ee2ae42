"""What plans cost, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastune.errors import InvariantError
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Stage
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.plan import Plan, StagePlan, Workload, allocate

DOLLAR_A_SECOND = ClusterTerms(slots_per_node=2, max_nodes=8, price_per_hour=3600.0, minimum_charge_s=0.0)


def workload(cluster: ClusterTerms, *shape: tuple[int, int], ages: tuple[float, ...] = ()) -> Workload:
    return Workload(
        stages=tuple(Stage(trials=trials, iterations=iterations) for trials, iterations in shape),
        profile=Profile(iteration=Constant(10.0), speedup=Speedup.of({2: 2.0})),
        cluster=cluster,
        node_ages_s=ages,
    )


def cost(work: Workload, *stages: tuple[int, int, int]) -> float:
    """Stages as (gangs, slots per trial, nodes held)."""
    plan = Plan(
        tuple(
            StagePlan(
                allocation=allocate(gangs=gangs, slots_per_trial=slots, slots_per_node=2), nodes_held=held
            )
            for gangs, slots, held in stages
        )
    )
    return Evaluator(work, Draws(work, samples=1, seed=0)).evaluate(plan).mean_cost_usd


def test_a_node_costs_while_it_is_held() -> None:
    assert cost(workload(DOLLAR_A_SECOND, (4, 2), (2, 1)), (4, 1, 2), (2, 1, 1)) == pytest.approx(2 * 20 + 10)
    assert cost(workload(DOLLAR_A_SECOND, (4, 2), (2, 1)), (4, 1, 2), (2, 1, 2)) == pytest.approx(2 * 20 + 20)


def test_the_queue_at_the_provider_is_free_but_the_nodes_that_wait_for_it_are_not() -> None:
    slow = replace(DOLLAR_A_SECOND, queue=Constant(5.0), init=Constant(3.0))
    # 1 node: 3 + 20; then it waits 8 for a second one that is billed from its init on
    assert cost(workload(slow, (2, 2), (4, 1)), (2, 1, 1), (4, 1, 2)) == pytest.approx(23 + 18 + 13)


def test_a_young_node_costs_its_minimum_and_the_oldest_goes_first() -> None:
    minimum = replace(DOLLAR_A_SECOND, minimum_charge_s=60.0)
    # two nodes for 20 s; one is released and costs 60, the other goes on to 20 + 50 = 70
    assert cost(workload(minimum, (4, 2), (2, 5)), (4, 1, 2), (2, 1, 1)) == pytest.approx(60 + 70)
    # a node of age 100 is at hand: it is the one to go, at no further cost
    aged = workload(minimum, (4, 2), (2, 5), ages=(100.0,))
    assert cost(aged, (4, 1, 2), (2, 1, 1)) == pytest.approx(20 + 70)


def test_what_is_left_of_a_minimum_charge_is_paid_even_if_the_node_goes_at_once() -> None:
    minimum = replace(DOLLAR_A_SECOND, minimum_charge_s=60.0)
    two_young = workload(minimum, (2, 7), ages=(10.0, 45.0))
    # the older one goes at once and costs the missing 15; the younger one runs 70
    assert cost(two_young, (2, 1, 1)) == pytest.approx(15 + 70)


def test_by_function_only_busy_slots_cost() -> None:
    function = replace(DOLLAR_A_SECOND, billing=Billing.FUNCTION, init=Constant(100.0), minimum_charge_s=60.0)
    # four trials of 20 s on one slot each, at half a dollar a slot-second; idle nodes and boots are free
    assert cost(workload(function, (4, 2)), (4, 1, 8)) == pytest.approx(4 * 20 * 0.5)
    # linear scaling: two slots for half the time cost the same
    assert cost(workload(function, (4, 2)), (4, 2, 4)) == pytest.approx(4 * 20 * 0.5)


def test_data_are_paid_for_every_new_node() -> None:
    data = replace(DOLLAR_A_SECOND, data_usd_per_node=7.0)
    up_down_up = workload(data, (4, 1), (2, 1), (4, 1))
    assert cost(up_down_up, (4, 1, 2), (2, 1, 1), (4, 1, 2)) == pytest.approx(20 + 10 + 20 + 3 * 7)


def test_a_plan_for_other_stages_is_refused() -> None:
    with pytest.raises(InvariantError, match="2 planned stages for 1"):
        cost(workload(DOLLAR_A_SECOND, (4, 1)), (4, 1, 2), (4, 1, 2))


def test_a_stage_cannot_use_more_nodes_than_it_holds() -> None:
    with pytest.raises(InvariantError, match="must hold the nodes that it uses"):
        cost(workload(DOLLAR_A_SECOND, (4, 1)), (4, 1, 1))
