"""What the simulated provider charges, at a cent per second and node."""

from __future__ import annotations

import pytest

from elastune.errors import InvariantError
from elastune.model.cluster import Billing
from elastune.model.ids import NodeId
from elastune.providers.simulated_faults import NodeFaults
from tests.providers.clouds import cloud, terms

N0, N1 = NodeId("n0"), NodeId("n1")


def test_queueing_is_free_and_booting_is_not() -> None:
    here = cloud(terms(queue=10.0, init=500.0))
    here.provider.request("a", 2)
    assert here.at(9.0).bill_usd(9.0) == 0.0
    assert here.at(110.0).bill_usd(110.0) == pytest.approx(2.00)


def test_the_minimum_is_owed_from_the_grant_on() -> None:
    here = cloud(terms(queue=0.0))
    here.provider.request("a", 1)
    assert here.provider.bill_usd(0.0) == pytest.approx(0.60)
    here.at(30.0).release(here.provider.live())
    assert here.at(500.0).bill_usd(500.0) == pytest.approx(0.60)


def test_billing_ends_with_the_release() -> None:
    here = cloud(terms(queue=0.0))
    here.provider.request("a", 2)
    here.at(100.0).release([N0])
    here.at(200.0).release([N0, N1])
    assert here.at(900.0).bill_usd(900.0) == pytest.approx(3.00)


def test_a_bill_of_the_past_is_what_was_owed_then() -> None:
    here = cloud(terms(queue=0.0))
    here.provider.request("a", 1)
    here.at(300.0).release(here.provider.live())
    here.provider.request("b", 1)
    assert here.at(900.0).bill_usd(200.0) == pytest.approx(2.00)


def test_a_bill_of_the_future_is_not_known() -> None:
    with pytest.raises(InvariantError, match=r"the bill at 1\.0 s is not known at 0\.0 s"):
        cloud().provider.bill_usd(1.0)


def test_a_lost_node_is_billed_until_its_loss_without_a_survey_at_that_time() -> None:
    observed, unobserved = (
        cloud(terms(queue=0.0), seed=4, faults=NodeFaults(lost_per_hour=10.0)) for _ in range(2)
    )
    observed.provider.request("a", 1)
    unobserved.provider.request("a", 1)
    lost_s = 0.0
    while (change_s := observed.provider.next_change_s()) is not None:
        lost_s = change_s
        observed.at(lost_s).survey()
    assert lost_s > 60.0
    assert unobserved.at(1e6).bill_usd(1e6) == pytest.approx(lost_s * 0.01)


@pytest.mark.parametrize(("billing", "usd"), [(Billing.INSTANCE, 3.0 + 5.0), (Billing.FUNCTION, 5.0)])
def test_ingress_is_owed_per_granted_node_and_machine_time_only_per_instance(
    billing: Billing, usd: float
) -> None:
    here = cloud(terms(queue=0.0, billing=billing, data_usd_per_node=2.5, max_nodes=2))
    here.provider.request("a", 5)
    assert here.at(150.0).bill_usd(150.0) == pytest.approx(usd)
