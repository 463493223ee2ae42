"""The virtual cloud: when things happen, and what goes wrong."""

from __future__ import annotations

import pytest

from elastune.errors import InvariantError, JobError
from elastune.model.distributions import Empirical, LogNormal
from elastune.model.ids import NodeId
from elastune.providers.protocol import Machine, MachineState, RequestStatus
from elastune.providers.simulated_faults import NodeFaults
from tests.providers.clouds import cloud, terms


def test_nodes_queue_then_boot_then_are_ready() -> None:
    here = cloud(terms(queue=10.0, init=20.0))
    here.at(5.0).request("a", 2)
    assert here.at(14.9).survey().machines == ()
    assert here.at(15.0).survey().machines == (
        Machine(node=NodeId("n0"), token="a", since_s=15.0),
        Machine(node=NodeId("n1"), token="a", since_s=15.0),
    )
    late = here.at(100.0).survey()
    assert [machine.ready_s for machine in late.machines] == [35.0, 35.0]
    assert late.requests == (RequestStatus(token="a", asked=2, granted=(NodeId("n0"), NodeId("n1"))),)


def test_a_request_queues_once_and_its_nodes_boot_each_at_its_own_pace() -> None:
    here = cloud(terms(queue=LogNormal(10.0, 5.0), init=LogNormal(20.0, 10.0)))
    here.provider.request("a", 8)
    machines = here.at(1_000.0).survey().machines
    assert len({machine.since_s for machine in machines}) == 1
    assert len({machine.ready_s for machine in machines}) == 8


def test_nodes_are_numbered_in_order_of_grant_not_of_request() -> None:
    here = cloud(terms(queue=Empirical((1.0, 100.0))))
    for token in "abcdef":
        here.provider.request(token, 1)
    requests = here.at(200.0).survey().requests
    assert [status.granted for status in requests] == [(f"n{number}",) for number in range(6)]
    assert [status.token for status in requests] != sorted(status.token for status in requests)


def test_changes_are_announced_one_by_one() -> None:
    here = cloud(terms(queue=10.0, init=20.0))
    assert here.provider.next_change_s() is None
    here.provider.request("a", 2)
    assert here.provider.next_change_s() == 10.0
    here.at(10.0).survey()
    assert here.provider.next_change_s() == 30.0
    here.at(30.0).survey()
    assert here.provider.next_change_s() is None


def test_a_change_that_no_survey_has_shown_yet_is_due_now() -> None:
    here = cloud(terms(queue=0.0, init=0.0))
    here.at(5.0).request("a", 1)
    assert here.provider.next_change_s() == 5.0
    assert here.provider.survey().machines[0].ready_s == 5.0
    assert here.provider.next_change_s() is None


def test_nothing_is_announced_of_released_nodes() -> None:
    here = cloud(faults=NodeFaults(lost_per_hour=1.0, noticed_per_hour=1.0))
    here.provider.request("a", 3)
    here.at(10.0).survey()
    here.provider.release(here.provider.live())
    assert here.provider.next_change_s() is None


def test_no_more_nodes_than_the_job_allows() -> None:
    here = cloud(terms(max_nodes=3))
    here.provider.request("a", 2)
    here.provider.request("b", 4)
    status = here.at(10.0).survey().requests[1]
    assert (status.granted, status.refused, status.reason) == (("n2",), 3, "at most 3 nodes")


def test_no_more_nodes_than_the_provider_has() -> None:
    here = cloud(faults=NodeFaults(capacity=1))
    here.provider.request("a", 2)
    status = here.at(10.0).survey().requests[0]
    assert (status.granted, status.refused, status.reason) == (
        ("n0",),
        1,
        "the provider has no more than 1 nodes",
    )


def test_room_is_counted_when_the_request_is_answered() -> None:
    here = cloud(terms(max_nodes=1))
    here.provider.request("a", 1)
    here.at(12.0).request("b", 1)
    here.at(20.0).release([NodeId("n0")])
    assert here.at(22.0).survey().requests[1].granted == ("n1",)


def test_refusals_are_half_of_the_time_partial() -> None:
    here = cloud(terms(max_nodes=10_000, queue=0.0), faults=NodeFaults(refused=0.5))
    for number in range(1_000):
        here.provider.request(f"r{number}", 4)
    granted = [len(status.granted) for status in here.provider.survey().requests]
    assert granted.count(4) == pytest.approx(500, abs=60)
    assert granted.count(0) == pytest.approx(250, abs=50)
    for part in (1, 2, 3):
        assert granted.count(part) == pytest.approx(83, abs=30)


def test_a_single_node_is_refused_as_often_as_a_request() -> None:
    here = cloud(terms(max_nodes=10_000, queue=0.0), faults=NodeFaults(refused=0.2))
    for number in range(1_000):
        here.provider.request(f"r{number}", 1)
    assert sum(status.refused for status in here.provider.survey().requests) == pytest.approx(200, abs=45)


def test_a_node_that_fails_to_boot_stays_booting_and_is_billed() -> None:
    here = cloud(terms(queue=0.0), faults=NodeFaults(boot_failure=1.0))
    here.provider.request("a", 1)
    machine = here.at(1_000.0).survey().machines[0]
    assert machine.state is MachineState.BOOTING
    assert here.provider.bill_usd(1_000.0) == pytest.approx(10.0)
    assert here.provider.next_change_s() is None


def test_nodes_are_lost_at_the_rate_asked_for() -> None:
    here = cloud(terms(max_nodes=2_000, queue=0.0), faults=NodeFaults(lost_per_hour=0.5))
    here.provider.request("a", 2_000)
    here.provider.survey()
    assert len(here.at(3_600.0).live()) == pytest.approx(2_000 * 0.6065, abs=80)


def test_a_noticed_node_vanishes_when_its_notice_ends() -> None:
    here = cloud(faults=NodeFaults(noticed_per_hour=2.0, notice_s=50.0))
    here.provider.request("a", 1)
    changes = []
    while (change_s := here.provider.next_change_s()) is not None:
        changes.append((change_s, here.at(change_s).survey().machines))
    (noticed_s, (machine,)), (end_s, nothing) = changes[-2:]
    assert machine.until_s == end_s == noticed_s + 50.0
    assert nothing == ()


def test_some_nodes_are_slow() -> None:
    here = cloud(terms(max_nodes=1_000, queue=0.0), faults=NodeFaults(straggler=0.1, straggler_factor=4.0))
    here.provider.request("a", 1_000)
    slowdowns = [here.provider.slowdown(node) for node in here.provider.live()]
    assert set(slowdowns) == {1.0, 4.0}
    assert slowdowns.count(4.0) == pytest.approx(100, abs=30)
    assert cloud().provider.slowdown(NodeId("n0")) == 1.0


def test_a_node_that_is_not_released_ends_when_its_time_to_live_does() -> None:
    here = cloud(terms(queue=10.0), expires_s=100.0)
    here.provider.request("a", 2)
    here.at(10.0).survey()
    here.at(50.0).release(here.provider.live()[:1])
    assert here.at(109.9).live() == ("n1",)
    assert here.at(500.0).live() == ()
    assert here.provider.bill_usd(500.0) == pytest.approx((60.0 + 100.0) * 0.01)


def test_a_time_to_live_of_nothing_is_an_error() -> None:
    with pytest.raises(JobError, match=r"expire after 0\.0 s, expected more than 0"):
        cloud(expires_s=0.0)


def test_a_clock_that_goes_back_is_our_bug() -> None:
    here = cloud()
    here.at(10.0).survey()
    with pytest.raises(InvariantError, match=r"went back from 10\.0 s to 9\.0 s"):
        here.at(9.0).survey()
