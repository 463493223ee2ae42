"""Which hole is the best one, and what happens when largest first does not do."""

from __future__ import annotations

from elastune.placement.best_fit import Fitter, units_of


def holes(*free: int, slots_per_node: int) -> list[int]:
    return [free.count(size) for size in range(slots_per_node + 1)]


def test_a_gang_takes_its_slots_of_one_node_or_whole_nodes() -> None:
    assert [units_of(slots, 4) for slots in (1, 4, 5, 8)] == [(1,), (4,), (4, 4), (4, 4)]


def test_the_best_hole_costs_no_room_for_larger_gangs() -> None:
    fitter = Fitter([1, 2, 4], 8)
    assert fitter.first_fit(1, holes(2, 3, 8, slots_per_node=8)) == 3
    assert fitter.first_fit(2, holes(4, 6, slots_per_node=8)) == 6
    assert fitter.first_fit(2, holes(3, 6, slots_per_node=8)) == 3
    assert fitter.first_fit(4, holes(3, 8, slots_per_node=8)) == 8
    assert fitter.first_fit(4, holes(3, slots_per_node=8)) is None


def test_sizes_divide_each_other_whatever_the_size_of_a_node() -> None:
    assert Fitter([1, 2, 4], 6).divisible
    assert Fitter([3, 9, 12], 9).divisible
    assert not Fitter([2, 3], 6).divisible


def test_a_search_finds_what_largest_first_does_not() -> None:
    # Largest first puts the 4 into the 5 and is left with 1 + 7 free slots for 3, 3 and 2.
    assert Fitter([2, 3, 4], 7).fit([4, 3, 3, 2], holes(5, 7, slots_per_node=7)) == [7, 3, 5, 2]


def test_more_than_there_is_room_for_is_refused() -> None:
    assert Fitter([2, 3], 4).fit([3, 3, 2], holes(4, 4, slots_per_node=4)) is None
    assert Fitter([2, 4], 4).fit([4, 2, 2, 2], holes(4, 4, slots_per_node=4)) is None
