"""Placements small enough to be drawn."""

from __future__ import annotations

import pytest

from elastune.errors import InvariantError
from elastune.model.ids import NodeId, Slot, TrialId
from elastune.placement.controller import place, survey
from elastune.placement.displacement import displace
from elastune.placement.request import Change, PlacementNodes, PlacementRequest, Shortfall, SlotWish
from tests.placement.clusters import drawn, request


def placed(asked: PlacementRequest) -> str:
    return drawn(asked, place(asked).gangs)


def test_gangs_are_packed_largest_first_on_the_youngest_nodes() -> None:
    assert placed(request(".... .... ....", {1: 1, 2: 4, 3: 2, 4: 1})) == ".... 1334 2222"


def test_a_gang_larger_than_a_node_has_its_nodes_for_itself() -> None:
    assert placed(request(".... .... ....", {1: 1, 2: 5})) == "1... 2222 2..."


def test_a_gang_goes_where_it_costs_no_room_for_larger_ones() -> None:
    # A plain best fit would put trial 3 on node b and leave room for one gang of 2 only.
    assert placed(request("1... 22..", {1: 1, 2: 2, 3: 1})) == "13.. 22.."


def test_a_gang_stays_where_it_is_if_it_need_not_move() -> None:
    assert placed(request("1... .2.. ..3.", {3: 1, 4: 3, 2: 1, 1: 1})) == "1... .2.. 4434"


def test_the_fewest_gangs_give_way_and_the_others_stay() -> None:
    asked = request("12.. 344. 55..", {6: 4, 1: 1, 2: 1, 3: 1, 4: 2, 5: 2})
    placement = place(asked)
    assert drawn(asked, placement.gangs) == "1255 344. 6666"
    assert placement.trials(Change.MOVE) == (5,)
    assert placement.trials(Change.START) == (6,)
    assert placement.trials(Change.STAY) == (1, 2, 3, 4)


def test_emptying_the_node_with_the_fewest_gangs_may_move_more_in_the_end() -> None:
    # Two pairs leave node b at once, but find only single slots and drive out all of 1, 2, 3 and 4.
    singles, pairs = dict.fromkeys((1, 2, 3, 4), 1), {5: 2, 6: 2}
    asked = request("1234 5566 777. 888. 999. 000.", {10: 4} | pairs | singles, locked=(7, 8, 9, 0))
    assert place(asked).trials(Change.MOVE) == (1, 2, 3, 4)
    task = survey(asked, closing=0)
    by_algorithm_3 = displace(task)
    assert by_algorithm_3 is not None
    assert task.moves(by_algorithm_3) == 6


def test_a_gang_that_grows_or_shrinks_keeps_the_slots_it_can() -> None:
    asked = request(".11. 2222", {1: 4, 2: 2})
    placement = place(asked)
    assert drawn(asked, placement.gangs) == "1111 22.."
    assert placement.trials(Change.RESIZE) == (1, 2)


def test_trials_without_a_wish_stop() -> None:
    asked = request("1122", {2: 2})
    placement = place(asked)
    assert drawn(asked, placement.gangs) == "..22"
    assert placement.trials(Change.STOP) == (1,)


def test_gangs_leave_a_leaving_node_and_nothing_new_goes_there() -> None:
    assert placed(request("11.. 22.. ....", {1: 2, 2: 2, 3: 4}, leaving="a")) == ".... 2211 3333"


def test_gangs_of_a_lost_node_start_again_elsewhere() -> None:
    asked = request("11.. 2... 3333 3...", {3: 4, 1: 2, 2: 1}, lost="ad")
    placement = place(asked)
    assert drawn(asked, placement.gangs) == "211. 3333"
    assert placement.trials(Change.START) == (1, 3)


def test_a_locked_gang_is_neither_moved_nor_resized_nor_stopped() -> None:
    asked = request("1... 2... 3...", {4: 4, 5: 4, 1: 2, 2: 1}, locked=(1, 3))
    placement = place(asked)
    assert drawn(asked, placement.gangs) == "1... 4444 3552"
    assert placement.trials(Change.STAY) == (1, 3)
    assert [shortfall.trial for shortfall in placement.short] == [5, 1]


def test_a_locked_gang_stays_even_on_a_leaving_node() -> None:
    assert placed(request("1122 ....", {1: 2, 2: 2}, locked=(1,), leaving="a")) == "11.. 22.."


def test_the_lowest_ranked_gang_shrinks_when_colocation_leaves_no_room() -> None:
    asked = request(".... ....", {1: 3, 2: 3, 3: 2})
    placement = place(asked)
    assert drawn(asked, placement.gangs) == "222. 1113"
    assert placement.short == (Shortfall(trial=TrialId(3), wished=2, granted=1),)


def test_leftovers_go_best_first_down_to_the_minimum() -> None:
    asked = request(".... ....", {1: 4, 2: 2, 3: 8, 4: 2, 5: 1}, min_slots=2)
    placement = place(asked)
    assert drawn(asked, placement.gangs) == "2233 1111"
    assert [(s.trial, s.granted) for s in placement.short] == [(3, 2), (4, 0), (5, 0)]


def test_a_shrunk_gang_grows_to_its_wish_when_there_is_room_again() -> None:
    asked = request("2233 ....", {2: 2, 3: 4})
    assert placed(asked) == "22.. 3333"


def test_without_nodes_nothing_is_placed() -> None:
    cluster = PlacementNodes(nodes=(), slots_per_node=4)
    placement = place(PlacementRequest(cluster=cluster, wishes=(SlotWish(trial=TrialId(1), slots=2),)))
    assert placement.gangs == {}
    assert placement.short == (Shortfall(trial=TrialId(1), wished=2, granted=0),)


CLUSTER = PlacementNodes(nodes=(NodeId("a"), NodeId("b")), slots_per_node=2)
A0, A1, B0 = Slot(NodeId("a"), 0), Slot(NodeId("a"), 1), Slot(NodeId("b"), 0)


@pytest.mark.parametrize(
    ("present", "message"),
    [
        ({1: (A0,), 2: (A0, A1)}, "share slot 0 of a"),
        ({1: (A0, B0)}, "2 slots on 2 nodes of 2"),
        ({1: (Slot(NodeId("a"), 2),)}, "holds slot 2 of a, which has 2"),
        ({1: ()}, "0 slots on 0 nodes"),
        ({1: (A0, A1, B0), 2: (Slot(NodeId("b"), 1),)}, "share slot 1 of b"),
    ],
)
def test_a_present_that_cannot_be_is_our_bug(present: dict[int, tuple[Slot, ...]], message: str) -> None:
    gangs = {TrialId(trial): gang for trial, gang in present.items()}
    with pytest.raises(InvariantError, match=message):
        PlacementRequest(cluster=CLUSTER, wishes=(), present=gangs)


def test_a_request_that_makes_no_sense_is_refused() -> None:
    one = SlotWish(trial=TrialId(1), slots=1)
    with pytest.raises(InvariantError, match="two wishes"):
        PlacementRequest(cluster=CLUSTER, wishes=(one, one))
    with pytest.raises(InvariantError, match="wishes 0 slots"):
        PlacementRequest(cluster=CLUSTER, wishes=(SlotWish(trial=TrialId(1), slots=0),))
    with pytest.raises(InvariantError, match=r"\[7\] are locked, but have no gang"):
        PlacementRequest(cluster=CLUSTER, wishes=(), locked=frozenset({TrialId(7)}))
    with pytest.raises(InvariantError, match="min_slots is 0"):
        PlacementRequest(cluster=CLUSTER, wishes=(), min_slots=0)
    with pytest.raises(InvariantError, match="named twice"):
        PlacementNodes(nodes=(NodeId("a"), NodeId("a")), slots_per_node=2)
    with pytest.raises(InvariantError, match="0 slots"):
        PlacementNodes(nodes=(), slots_per_node=0)
