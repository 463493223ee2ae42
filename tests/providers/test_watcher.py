"""Surveys in, facts out."""

from __future__ import annotations

from elastune.place import NodeId
from elastune.providers import (
    Belief,
    Fate,
    Granted,
    Lost,
    Machine,
    Noticed,
    Orphaned,
    Ready,
    Refused,
    Survey,
    Watcher,
)

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def machine(
    node: NodeId, *, since_s: float = 10.0, ready_s: float | None = None, until_s: float | None = None
) -> Machine:
    return Machine(node=node, token="t", since_s=since_s, ready_s=ready_s, until_s=until_s)


def survey(at_s: float, *machines: Machine, fates: tuple[Fate, ...] = ()) -> Survey:
    return Survey(at_s=at_s, machines=machines, fates=fates)


def watcher(*machines: Machine) -> Watcher:
    return Watcher(Belief(machines=machines, tokens=frozenset({"t"})))


def test_the_life_of_two_nodes_is_told_fact_by_fact() -> None:
    watching = watcher()
    assert watching.observe(survey(5.0)) == ()
    assert watching.observe(survey(12.0, machine(A), machine(B))) == (
        Granted(at_s=10.0, token="t", nodes=(A, B)),
    )
    assert watching.observe(survey(35.0, machine(A, ready_s=30.0), machine(B, ready_s=30.0))) == (
        Ready(at_s=30.0, nodes=(A, B)),
    )
    taken = machine(A, ready_s=30.0, until_s=160.0)
    assert watching.observe(survey(40.0, taken, machine(B, ready_s=30.0))) == (
        Noticed(at_s=40.0, node=A, until_s=160.0),
    )
    assert watching.observe(survey(160.0, machine(B, ready_s=30.0))) == (Lost(at_s=160.0, node=A),)
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
        fates=(Fate(token="t", asked=4, granted=(A, B, C), refused=1, reason="full"),),
    )
    assert watcher(machine(NodeId("z"))).observe(late) == (
        Granted(at_s=10.0, token="t", nodes=(A, B)),
        Ready(at_s=15.0, nodes=(B,)),
        Granted(at_s=18.0, token="t", nodes=(C,)),
        Ready(at_s=20.0, nodes=(A, C)),
        Refused(at_s=50.0, token="t", count=1, reason="full"),
        Noticed(at_s=50.0, node=B, until_s=60.0),
        Lost(at_s=50.0, node=NodeId("z")),
    )


def test_a_released_node_is_no_loss() -> None:
    watching = watcher(machine(A), machine(B))
    watching.release([A])
    assert watching.observe(survey(20.0, machine(B))) == ()


def test_a_released_node_that_is_still_there_is_an_orphan_once() -> None:
    watching = watcher(machine(A), machine(B))
    watching.release([A])
    assert watching.observe(survey(20.0, machine(A), machine(B))) == (Orphaned(at_s=20.0, node=A),)
    assert watching.observe(survey(21.0, machine(A, ready_s=21.0), machine(B))) == ()


def test_a_lost_node_that_comes_back_is_an_orphan() -> None:
    watching = watcher(machine(A))
    assert watching.observe(survey(20.0)) == (Lost(at_s=20.0, node=A),)
    assert watching.observe(survey(30.0, machine(A))) == (Orphaned(at_s=30.0, node=A),)


def test_a_machine_of_an_unknown_token_is_an_orphan_and_its_fate_is_not_told() -> None:
    fates = (Fate(token="t", asked=2, granted=(A,), refused=1, reason="full"),)
    assert Watcher().observe(survey(20.0, machine(A), fates=fates)) == (Orphaned(at_s=20.0, node=A),)


def test_refusals_that_come_in_parts_are_told_in_parts() -> None:
    watching = watcher()
    some = Fate(token="t", asked=5, refused=2, reason="full")
    more = Fate(token="t", asked=5, refused=5, reason="still full")
    assert watching.observe(survey(1.0, fates=(some,))) == (
        Refused(at_s=1.0, token="t", count=2, reason="full"),
    )
    assert watching.observe(survey(2.0, fates=(some,))) == ()
    assert watching.observe(survey(3.0, fates=(more,))) == (
        Refused(at_s=3.0, token="t", count=3, reason="still full"),
    )


def test_a_node_that_came_and_went_between_two_surveys_is_granted_and_lost() -> None:
    watching = watcher()
    fates = (Fate(token="t", asked=2, granted=(A, B)),)
    facts = watching.observe(survey(50.0, machine(B), fates=fates))
    assert facts == (
        Granted(at_s=10.0, token="t", nodes=(B,)),
        Granted(at_s=50.0, token="t", nodes=(A,)),
        Lost(at_s=50.0, node=A),
    )
    assert watching.observe(survey(51.0, machine(B), fates=fates)) == ()


def test_what_was_told_is_not_taken_back() -> None:
    watching = watcher(machine(A, ready_s=20.0, until_s=90.0))
    assert watching.observe(survey(30.0, machine(A))) == ()


def test_a_notice_may_be_moved() -> None:
    watching = watcher(machine(A, until_s=90.0))
    assert watching.observe(survey(30.0, machine(A, until_s=70.0))) == (
        Noticed(at_s=30.0, node=A, until_s=70.0),
    )


def test_a_resumed_run_learns_what_happened_while_it_was_away() -> None:
    """The journal: A and B of the first request, of which A was to go; a second request without an answer."""
    belief = Belief(
        machines=(machine(B),), tokens=frozenset({"t", "second"}), refused={"t": 1}, gone=frozenset({A})
    )
    stranger = Machine(node=NodeId("x"), token="of nobody", since_s=1.0)
    new = Machine(node=C, token="second", since_s=40.0, ready_s=45.0)
    there = survey(
        100.0, machine(A), stranger, new,
        fates=(
            Fate(token="t", asked=3, granted=(A, B), refused=1, reason="full"),
            Fate(token="second", asked=1, granted=(C,)),
        ),
    )  # fmt: skip
    assert Watcher(belief).observe(there) == (
        Granted(at_s=40.0, token="second", nodes=(C,)),
        Ready(at_s=45.0, nodes=(C,)),
        Lost(at_s=100.0, node=B),
        Orphaned(at_s=100.0, node=A),
        Orphaned(at_s=100.0, node=NodeId("x")),
    )


def test_facts_about_nodes_that_were_given_up_meanwhile_do_not_bring_them_back() -> None:
    watching = watcher(machine(A))
    watching.release([A])
    before = watching.belief
    watching.learn(Granted(at_s=10.0, token="t", nodes=(A,)))
    watching.learn(Ready(at_s=20.0, nodes=(A,)))
    watching.learn(Noticed(at_s=20.0, node=A, until_s=30.0))
    watching.learn(Lost(at_s=30.0, node=A))
    assert watching.belief == before
