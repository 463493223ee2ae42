"""Surveys in, events of the core out."""

from __future__ import annotations

from elastune.core.events import NodeFound, NodeLost, NodeNoticed, NodesGranted, NodesReady, NodesRefused
from elastune.model.ids import NodeId
from elastune.providers.protocol import Machine, RequestStatus, Survey
from elastune.providers.watcher import Belief, Watcher

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
BILLED_S = {A: 25.0, C: 3.0}


def machine(
    node: NodeId, *, since_s: float = 10.0, ready_s: float | None = None, until_s: float | None = None
) -> Machine:
    return Machine(node=node, token="1", since_s=since_s, ready_s=ready_s, until_s=until_s)


def survey(at_s: float, *machines: Machine, requests: tuple[RequestStatus, ...] = ()) -> Survey:
    return Survey(at_s=at_s, machines=machines, requests=requests)


def watcher(*machines: Machine) -> Watcher:
    return Watcher(Belief(machines=machines, requests=frozenset({1})))


def test_the_life_of_two_nodes_is_told_event_by_event() -> None:
    watching = watcher()
    assert watching.observe(survey(5.0)) == ()
    assert watching.observe(survey(12.0, machine(A), machine(B))) == (
        NodesGranted(at_s=12.0, request=1, nodes=(A, B), billed_s=2.0),
    )
    assert watching.observe(survey(35.0, machine(A, ready_s=30.0), machine(B, ready_s=30.0))) == (
        NodesReady(at_s=35.0, nodes=(A, B)),
    )
    taken = machine(A, ready_s=30.0, until_s=160.0)
    assert watching.observe(survey(40.0, taken, machine(B, ready_s=30.0))) == (
        NodeNoticed(at_s=40.0, node=A, until_s=160.0),
    )
    assert watching.observe(survey(160.0, machine(B, ready_s=30.0))) == (NodeLost(at_s=160.0, node=A),)
    assert watching.belief.machines == (machine(B, ready_s=30.0),)


def test_a_survey_that_shows_nothing_new_yields_nothing() -> None:
    shown = survey(50.0, machine(A, ready_s=20.0, until_s=90.0), machine(B))
    watching = watcher()
    assert len(watching.observe(shown)) == 3
    assert watching.observe(shown) == ()


def test_one_late_survey_tells_everything_in_order_of_time() -> None:
    late = survey(
        50.0,
        machine(A, ready_s=20.0),
        machine(B, ready_s=15.0, until_s=60.0),
        machine(C, since_s=18.0, ready_s=20.0),
        requests=(RequestStatus(token="1", asked=4, granted=(A, B, C), refused=1, reason="full"),),
    )
    assert watcher(machine(NodeId("z"))).observe(late) == (
        NodesGranted(at_s=50.0, request=1, nodes=(A, B), billed_s=40.0),
        NodesReady(at_s=50.0, nodes=(B,)),
        NodesGranted(at_s=50.0, request=1, nodes=(C,), billed_s=32.0),
        NodesReady(at_s=50.0, nodes=(A, C)),
        NodesRefused(at_s=50.0, request=1, count=1, reason="full"),
        NodeNoticed(at_s=50.0, node=B, until_s=60.0),
        NodeLost(at_s=50.0, node=NodeId("z")),
    )


def test_a_released_node_is_no_loss() -> None:
    watching = watcher(machine(A), machine(B))
    watching.release([A])
    assert watching.observe(survey(20.0, machine(B))) == ()


def test_a_released_node_that_is_still_there_is_an_orphan_once() -> None:
    watching = watcher(machine(A), machine(B))
    watching.release([A])
    assert watching.observe(survey(20.0, machine(A), machine(B))) == (
        NodeFound(at_s=20.0, node=A, billed_s=10.0),
    )
    assert watching.observe(survey(21.0, machine(A, ready_s=21.0), machine(B))) == ()


def test_a_lost_node_that_comes_back_is_an_orphan() -> None:
    watching = watcher(machine(A))
    assert watching.observe(survey(20.0)) == (NodeLost(at_s=20.0, node=A),)
    assert watching.observe(survey(30.0, machine(A))) == (NodeFound(at_s=30.0, node=A, billed_s=20.0),)


def test_a_machine_of_an_unknown_token_is_an_orphan_and_its_fate_is_not_told() -> None:
    requests = (RequestStatus(token="1", asked=2, granted=(A,), refused=1, reason="full"),)
    assert Watcher().observe(survey(20.0, machine(A), requests=requests)) == (
        NodeFound(at_s=20.0, node=A, billed_s=10.0),
    )


def test_refusals_that_come_in_parts_are_told_in_parts() -> None:
    watching = watcher()
    some = RequestStatus(token="1", asked=5, refused=2, reason="full")
    more = RequestStatus(token="1", asked=5, refused=5, reason="still full")
    assert watching.observe(survey(1.0, requests=(some,))) == (
        NodesRefused(at_s=1.0, request=1, count=2, reason="full"),
    )
    assert watching.observe(survey(2.0, requests=(some,))) == ()
    assert watching.observe(survey(3.0, requests=(more,))) == (
        NodesRefused(at_s=3.0, request=1, count=3, reason="still full"),
    )


def test_a_node_that_came_and_went_between_two_surveys_is_granted_and_lost() -> None:
    watching = watcher()
    requests = (RequestStatus(token="1", asked=2, granted=(A, B)),)
    events = watching.observe(survey(50.0, machine(B), requests=requests))
    assert events == (
        NodesGranted(at_s=50.0, request=1, nodes=(B,), billed_s=40.0),
        NodesGranted(at_s=50.0, request=1, nodes=(A,)),
        NodeLost(at_s=50.0, node=A),
    )
    assert watching.observe(survey(51.0, machine(B), requests=requests)) == ()


def test_what_was_told_is_not_taken_back() -> None:
    watching = watcher(machine(A, ready_s=20.0, until_s=90.0))
    assert watching.observe(survey(30.0, machine(A))) == ()


def test_a_notice_may_be_moved() -> None:
    watching = watcher(machine(A, until_s=90.0))
    assert watching.observe(survey(30.0, machine(A, until_s=70.0))) == (
        NodeNoticed(at_s=30.0, node=A, until_s=70.0),
    )


def test_a_resumed_run_learns_what_happened_while_it_was_away() -> None:
    """The journal: A and B of the first request, of which A was to go; a second request without an answer."""
    belief = Belief(machines=(machine(B),), requests=frozenset({1, 2}), refused={1: 1}, gone=frozenset({A}))
    stranger = Machine(node=NodeId("x"), token="of nobody", since_s=1.0)
    new = Machine(node=C, token="2", since_s=40.0, ready_s=45.0)
    there = survey(
        100.0, machine(A), stranger, new,
        requests=(
            RequestStatus(token="1", asked=3, granted=(A, B), refused=1, reason="full"),
            RequestStatus(token="2", asked=1, granted=(C,)),
        ),
    )  # fmt: skip
    assert Watcher(belief).observe(there) == (
        NodesGranted(at_s=100.0, request=2, nodes=(C,), billed_s=60.0),
        NodesReady(at_s=100.0, nodes=(C,)),
        NodeLost(at_s=100.0, node=B),
        NodeFound(at_s=100.0, node=A, billed_s=90.0),
        NodeFound(at_s=100.0, node=NodeId("x"), billed_s=99.0),
    )


def test_a_provider_that_knows_the_bill_is_believed() -> None:
    """It saw the loss late, or the driver was away; the run's own watch would bill too much."""
    watching = Watcher(Belief(machines=(machine(A),), requests=frozenset({1})), billed_s=BILLED_S.get)
    requests = (RequestStatus(token="1", asked=4, granted=(A, B, C)),)
    assert watching.observe(survey(90.0, machine(B), requests=requests), now_s=91.0) == (
        NodesGranted(at_s=91.0, request=1, nodes=(B,), billed_s=81.0),
        NodesGranted(at_s=91.0, request=1, nodes=(C,), billed_s=3.0),
        NodeLost(at_s=91.0, node=A, billed_s=25.0),
        NodeLost(at_s=91.0, node=C, billed_s=3.0),
    )


def test_nodes_of_one_grant_that_are_billed_otherwise_are_told_apart() -> None:
    watching = Watcher(billed_s=BILLED_S.get)
    requests = (RequestStatus(token=watching.expect(2), asked=3, granted=(A, C, B), prices={B: 1.0}),)
    assert watching.observe(survey(50.0, requests=requests)) == (
        NodesGranted(at_s=50.0, request=2, nodes=(A,), billed_s=25.0),
        NodesGranted(at_s=50.0, request=2, nodes=(C,), billed_s=3.0),
        NodesGranted(at_s=50.0, request=2, nodes=(B,), usd_per_hour=1.0),
        NodeLost(at_s=50.0, node=A, billed_s=25.0),
        NodeLost(at_s=50.0, node=C, billed_s=3.0),
        NodeLost(at_s=50.0, node=B),
    )
