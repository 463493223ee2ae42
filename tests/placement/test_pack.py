"""Packing before a scale-down: which gangs move together and which nodes are released."""

from __future__ import annotations

import pytest

from elastune.errors import InvariantError
from elastune.model.ids import TrialId
from elastune.placement.controller import pack
from elastune.placement.request import Change, Shortfall
from tests.placement.clusters import drawn, request


def test_the_node_with_the_fewest_gangs_is_emptied() -> None:
    asked = request("123. 46.. 5...", {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1})
    packing = pack(asked, nodes_kept=2)
    assert drawn(asked, packing.placement.gangs) == "1235 46.. ...."
    assert packing.release == ("c",)


def test_among_equals_the_oldest_node_is_emptied() -> None:
    asked = request("1... 2... 3...", {1: 1, 2: 1, 3: 1})
    packing = pack(asked, nodes_kept=2)
    assert packing.release == ("a",)
    assert packing.placement.trials(Change.STAY) == (2, 3)
    assert pack(asked, nodes_kept=1).release == ("a", "b")


def test_an_empty_young_node_is_released_before_a_gang_moves() -> None:
    packing = pack(request("1... 2... ....", {1: 1, 2: 1}), nodes_kept=2)
    assert packing.release == ("c",)
    assert not packing.placement.trials(Change.MOVE)


def test_of_the_empty_nodes_the_oldest_are_released_and_the_others_kept() -> None:
    packing = pack(request(".... 1111 .... ....", {1: 4}), nodes_kept=2)
    assert packing.release == ("a", "c")


def test_new_gangs_do_not_take_the_nodes_to_be_released() -> None:
    asked = request(".... 1... ....", {1: 1, 2: 2, 3: 4})
    packing = pack(asked, nodes_kept=2)
    assert drawn(asked, packing.placement.gangs) == ".... 122. 3333"
    assert packing.release == ("a",)


def test_gangs_shrink_if_the_kept_nodes_do_not_hold_them() -> None:
    asked = request("1111 2222 33..", {1: 4, 3: 2, 2: 4})
    packing = pack(asked, nodes_kept=2)
    assert drawn(asked, packing.placement.gangs) in {"1111 .... 3322", "1111 22.. 33..", ".... 1111 2233"}
    assert packing.placement.short == (Shortfall(trial=TrialId(2), wished=4, granted=2),)
    assert len(packing.release) == 1


def test_leaving_nodes_are_released_with_the_others_once_they_are_empty() -> None:
    packing = pack(
        request("1... 2... 3... ....", {1: 1, 2: 1, 3: 1}, leaving="bc", locked=(3,)), nodes_kept=1
    )
    assert packing.release == ("b", "d")
    assert packing.placement.used_nodes == {"a", "c"}


def test_a_node_with_a_locked_gang_is_not_released() -> None:
    packing = pack(request("1... 2...", {1: 1, 2: 1}, locked=(1, 2)), nodes_kept=1)
    assert packing.release == ()


def test_keeping_more_nodes_than_there_are_releases_none() -> None:
    assert pack(request("1... ....", {1: 1}), nodes_kept=5).release == ()


def test_fewer_than_no_nodes_cannot_be_kept() -> None:
    with pytest.raises(InvariantError, match="nodes_kept is -1"):
        pack(request("....", {}), nodes_kept=-1)
