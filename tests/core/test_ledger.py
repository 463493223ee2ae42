"""What things cost, against sums done by hand. A node is a cent per second, a slot a quarter of it."""

from __future__ import annotations

import pytest

from elastune.core.ledger import Ledger, Use
from elastune.core.trials import Activity
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.ids import NodeId, Slot, TrialId

A, B = NodeId("a"), NodeId("b")
T0 = TrialId(0)
TWO = (Slot(A, 0), Slot(A, 1))


def usd(cents: float) -> object:
    return pytest.approx(cents / 100)


def ledger(
    billing: Billing = Billing.INSTANCE, minimum_charge_s: float = 0.0, ingress_usd: float = 0.0
) -> Ledger:
    made = Ledger(
        ClusterTerms(
            slots_per_node=4,
            max_nodes=9,
            price_per_hour=36.0,
            billing=billing,
            minimum_charge_s=minimum_charge_s,
            data_usd_per_node=ingress_usd,
        )
    )
    made.open_stage(0, 0, 0.0)
    return made


def test_a_node_costs_from_grant_to_release() -> None:
    book = ledger()
    book.grant(A, 0, 10.0)
    book.ready(A, 30.0)
    assert book.accrued_usd(50.0) == usd(40)
    book.end(A, 110.0)
    assert book.accrued_usd(1000.0) == usd(100)
    assert (book.nodes[A].billed_s, book.nodes[A].usd) == (100.0, usd(100))


def test_a_node_that_goes_young_costs_the_minimum() -> None:
    book = ledger(minimum_charge_s=60.0)
    book.grant(A, 0, 0.0)
    assert book.accrued_usd(10.0) == usd(60), "owed from the first second on"
    assert book.spent_usd(10.0) == usd(10), "but not spent yet"
    assert book.accrued_usd(10.0, extra_s=80.0) == usd(90)
    book.end(A, 20.0)
    assert book.accrued_usd(20.0) == usd(60)
    assert book.nodes[A].billed_s == 60.0


def test_the_next_node_costs_its_data_and_at_least_the_minimum() -> None:
    book = ledger(minimum_charge_s=60.0, ingress_usd=0.5)
    assert book.node_usd(5.0) == usd(50 + 60)
    assert book.node_usd(100.0) == usd(50 + 100)
    book.grant(A, 0, 0.0)
    assert book.accrued_usd(100.0) == usd(50 + 100)


def test_functions_cost_while_a_gang_is_there_and_idle_nodes_are_free() -> None:
    book = ledger(Billing.FUNCTION, minimum_charge_s=60.0, ingress_usd=0.5)
    book.grant(A, 0, 0.0)
    book.ready(A, 20.0)
    assert (book.accrued_usd(100.0), book.burn_usd_per_s) == (usd(50), 0.0)
    book.gang_begins(TWO, 0, Activity.STARTING, 100.0)
    assert book.burn_usd_per_s == usd(0.5)
    assert book.accrued_usd(140.0) == usd(50 + 20)
    book.gang_turns(0, 2, Activity.STARTING, Activity.TRAINING, 140.0)
    book.gang_ends(TWO, 0, Activity.TRAINING, 100.0, 200.0)
    book.end(A, 300.0)
    assert book.accrued_usd(400.0) == usd(50 + 50)
    assert book.node_usd(1000.0) == usd(50), "one more node is free but for its data"


def test_each_further_second_costs_all_live_nodes() -> None:
    book = ledger()
    book.grant(A, 0, 0.0)
    book.grant(B, 0, 50.0)
    assert book.burn_usd_per_s == usd(2)
    book.end(A, 60.0)
    assert book.burn_usd_per_s == usd(1)


def test_a_node_from_elsewhere_costs_what_it_costs() -> None:
    book = ledger(minimum_charge_s=60.0)
    book.grant(A, 0, 0.0)
    book.grant(B, 0, 0.0, usd_per_hour=108.0)
    assert book.burn_usd_per_s == usd(4)
    assert (book.accrued_usd(10.0), book.spent_usd(10.0)) == (usd(240), usd(40))
    assert book.lasts_until_s(4.0) == pytest.approx(100.0)
    book.end(B, 100.0)
    assert (book.nodes[B].usd, book.accrued_usd(200.0)) == (usd(300), usd(500))
    book.found(NodeId("c"), 200.0, 50.0, usd_per_hour=72.0)
    assert book.accrued_usd(200.0) == usd(500 + 120)
    book.end(A, 200.0)
    book.close(200.0)
    assert sum(stage.usd for stage in book.stages) == usd(620)


def test_nodes_that_are_asked_for_may_be_the_dearest() -> None:
    terms = ClusterTerms(slots_per_node=4, max_nodes=9, price_per_hour=36.0, most_price_per_hour=108.0)
    book = Ledger(terms)
    book.open_stage(0, 0, 0.0)
    assert book.node_usd(100.0) == usd(300)
    assert book.lasts_until_s(10.0) is None
    assert book.lasts_until_s(6.0, asked=2, at_s=50.0) == pytest.approx(150.0)
    book.grant(A, 0, 0.0)
    assert book.lasts_until_s(8.0, asked=2, at_s=50.0) == pytest.approx((800 + 2 * 3 * 50) / 7)


def test_stages_share_the_bill_at_the_barrier() -> None:
    book = ledger()
    book.grant(A, 0, 0.0)
    book.grant(B, 0, 0.0)
    book.ready(A, 20.0)
    book.ready(B, 30.0)
    book.open_stage(0, 1, 100.0)
    book.end(A, 100.0)
    book.end(B, 150.0)
    book.close(150.0)
    first, second = book.stages
    assert (first.began_s, first.ended_s, first.nodes) == (0.0, 100.0, 2)
    assert (first.node_s, first.booting_s, first.usd) == (200.0, 50.0, usd(200))
    assert (second.began_s, second.ended_s, second.nodes) == (100.0, 150.0, 1)
    assert (second.node_s, second.booting_s, second.usd) == (50.0, 0.0, usd(50))


def test_the_nodes_of_a_stage_are_those_it_had_for_most_of_its_time() -> None:
    """At its first moment it still has those of the stage before."""
    book = ledger()
    book.grant(A, 0, 10.0)
    book.grant(B, 0, 10.0)
    book.open_stage(0, 1, 40.0)
    book.end(A, 45.0)
    book.end(B, 95.0)
    book.close(100.0)
    assert [(stage.nodes, stage.peak_nodes) for stage in book.stages] == [(2, 2), (1, 2)]


def test_what_the_minimum_charge_adds_counts_where_the_node_served() -> None:
    """It was released at the barrier, which is the first moment of the next stage."""
    book = ledger(minimum_charge_s=60.0)
    book.grant(A, 0, 0.0)
    book.grant(B, 0, 0.0)
    book.open_stage(0, 1, 40.0)
    book.end(A, 40.0)
    book.end(B, 50.0)
    book.close(50.0)
    first, second = book.stages
    assert first.usd == usd(40 + 40 + 20)
    assert second.usd == usd(10 + 10)
    assert book.accrued_usd(50.0) == usd(120)


def test_slots_of_nodes_that_are_up_and_unused_are_idle() -> None:
    book = ledger()
    book.grant(A, 0, 0.0)
    book.ready(A, 10.0)
    book.gang_begins(TWO, 0, Activity.STARTING, 10.0)
    book.gang_turns(0, 2, Activity.STARTING, Activity.TRAINING, 15.0)
    book.gang_turns(0, 2, Activity.TRAINING, Activity.WAITING, 45.0)
    book.gang_turns(0, 2, Activity.WAITING, Activity.SAVING, 47.0)
    book.gang_ends(TWO, 0, Activity.SAVING, 10.0, 50.0)
    book.end(A, 60.0)
    book.close(60.0)
    (stage,) = book.stages
    assert stage.use == Use(starting_s=10.0, training_s=60.0, waiting_s=4.0, saving_s=6.0)
    assert book.idle_slot_s(stage) == 4 * 50.0 - 76.0  # also while a gang waits


def test_a_gang_is_booked_on_its_trial_and_its_nodes() -> None:
    book = ledger()
    book.grant(A, 0, 0.0)
    book.grant(B, 0, 0.0)
    spread = (Slot(A, 0), Slot(A, 1), Slot(B, 0))
    book.gang_used(T0, spread, Activity.TRAINING, 10.0)
    book.gang_used(T0, spread, Activity.SAVING, 1.0)
    assert book.trials[T0] == Use(training_s=30.0, saving_s=3.0)
    assert book.nodes[A].use == Use(training_s=20.0, saving_s=2.0)
    assert book.nodes[B].use == Use(training_s=10.0, saving_s=1.0)


def test_nodes_cost_while_the_driver_is_down_although_the_clock_stands_still() -> None:
    book = ledger()
    book.grant(A, 0, 0.0)
    book.down(300.0)
    assert book.accrued_usd(100.0) == usd(400)
    book.end(A, 100.0)
    book.close(100.0)
    assert (book.accrued_usd(100.0), book.stages[0].usd) == (usd(400), usd(400))


def test_a_provider_that_knows_better_has_the_last_word() -> None:
    book = ledger()
    book.grant(A, 0, 0.0)
    book.end(A, 100.0, lost=True, billed_s=70.0)
    book.close(100.0)
    assert (book.accrued_usd(100.0), book.stages[0].usd) == (usd(70), usd(70))
    assert book.nodes[A].lost


def test_a_node_that_is_found_late_is_billed_from_its_birth() -> None:
    book = ledger()
    book.grant(A, 0, 100.0, billed_s=40.0)
    assert book.nodes[A].born_s == 60.0
    assert book.accrued_usd(100.0) == usd(40)
    book.found(B, 100.0, billed_s=25.0)
    assert book.accrued_usd(100.0) == usd(65)


def test_a_node_that_was_thought_released_and_is_found_costs_the_difference() -> None:
    book = ledger()
    book.grant(A, 0, 0.0)
    book.end(A, 50.0)
    book.found(A, 90.0, billed_s=90.0)
    assert book.accrued_usd(90.0) == usd(90)


def test_the_stage_after_the_last_barrier_is_dropped_if_no_node_served_it() -> None:
    book = ledger()
    book.grant(A, 0, 0.0)
    book.open_stage(0, 1, 50.0)
    book.end(A, 50.0)
    book.close(50.0)
    assert [stage.stage for stage in book.stages] == [0]
    assert book.stages[0].usd == usd(50)
