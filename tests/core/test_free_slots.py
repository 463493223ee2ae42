"""Free slots: best fit under colocation, whole nodes for what exceeds one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.core.nodes import FreeSlots
from elastune.errors import InvariantError
from elastune.model.ids import Gang, NodeId, Slot
from tests.core.harness import gang

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def free_slots(*nodes: NodeId, slots: int = 4) -> FreeSlots:
    made = FreeSlots(slots)
    for node in nodes:
        made.open(node)
    return made


def taken(on: FreeSlots, slots: int) -> Gang:
    seats = on.seat(slots)
    assert seats is not None
    on.take(seats)
    return seats


def test_a_gang_goes_to_the_fullest_node_that_holds_it() -> None:
    cluster = free_slots(A, B)
    taken(cluster, 3)
    assert cluster.seat(1) == gang("a", 3)
    assert cluster.seat(2) == gang("b", 0, 1)


def test_slots_of_a_node_are_taken_from_the_lowest_number() -> None:
    cluster = free_slots(A)
    assert taken(cluster, 2) == gang("a", 0, 1)
    assert taken(cluster, 2) == gang("a", 2, 3)


def test_the_node_that_was_opened_first_wins_a_tie() -> None:
    assert free_slots(B, A).seat(2) == gang("b", 0, 1)


def test_a_gang_larger_than_a_node_takes_whole_nodes() -> None:
    cluster = free_slots(A, B, C)
    assert taken(cluster, 6) == (*gang("a", 0, 1, 2, 3), *gang("b", 0, 1))
    assert cluster.free_slots == 4, "the free slots of the last node are reserved"
    assert cluster.seat(2) == gang("c", 0, 1)


def test_a_large_gang_waits_for_empty_nodes() -> None:
    cluster = free_slots(A, B)
    taken(cluster, 1)
    assert cluster.seat(8) is None
    assert cluster.seat(5) is None


def test_a_gang_does_not_scatter_over_what_is_left_of_two_nodes() -> None:
    cluster = free_slots(A, B)
    taken(cluster, 3)
    taken(cluster, 3)
    assert cluster.free_slots == 2
    assert cluster.seat(2) is None


def test_what_is_given_back_is_free_again() -> None:
    cluster = free_slots(A, B)
    first = taken(cluster, 6)
    cluster.give(first)
    assert cluster.free_slots == 8
    assert list(cluster.empty_nodes()) == [A, B]
    assert cluster.holds(first)


def test_a_closed_node_takes_nothing_and_forgets_what_returns() -> None:
    cluster = free_slots(A, B)
    seats = taken(cluster, 2)
    cluster.close(A)
    cluster.give(seats)
    assert (A in cluster, B in cluster) == (False, True)
    assert cluster.free_slots == 4
    assert cluster.seat(1) == gang("b", 0)


def test_a_node_can_be_opened_with_slots_in_use() -> None:
    cluster = FreeSlots(4)
    cluster.open(A, taken=[0, 2])
    assert cluster.seat(2) == gang("a", 1, 3)


def test_a_slot_that_is_taken_twice_is_a_bug() -> None:
    cluster = free_slots(A)
    cluster.take((Slot(A, 0),))
    with pytest.raises(InvariantError, match="slot 0 of a is taken twice"):
        cluster.take((Slot(A, 0),))


@given(
    size=st.integers(1, 4),
    nodes=st.integers(1, 4),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=30),
)
def test_seats_are_free_together_and_counted(size: int, nodes: int, steps: list[tuple[bool, int]]) -> None:
    """An independent count, slot by slot, agrees with `FreeSlots` after any takes and gives."""
    cluster = free_slots(*(NodeId(f"n{i}") for i in range(nodes)), slots=size)
    held: list[Gang] = []
    for takes, number in steps:
        if takes:
            slots = 1 + number
            free = [size - sum(_reserved(each, NodeId(f"n{i}"), size) for each in held) for i in range(nodes)]
            seats = cluster.seat(slots)
            fits = max(free) >= slots if slots <= size else free.count(size) >= -(-slots // size)
            assert (seats is not None) == fits
            if seats is None:
                continue
            assert len(set(seats)) == slots
            assert len({slot.node for slot in seats}) == -(-slots // size)
            if slots <= size:
                assert free[int(seats[0].node[1:])] == min(f for f in free if f >= slots), "not the best fit"
            cluster.take(seats)
            held.append(seats)
        elif held:
            cluster.give(held.pop(number % len(held)))
        reserved = sum(len(g) if len(g) <= size else -(-len(g) // size) * size for g in held)
        assert cluster.free_slots == size * nodes - reserved


def _reserved(seats: Gang, node: NodeId, size: int) -> int:
    on_it = sum(slot.node == node for slot in seats)
    return size if on_it and len(seats) > size else on_it
