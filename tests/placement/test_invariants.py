"""What holds for every placement, whatever lay where and whatever is wished."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastune.placement.controller import pack, place
from elastune.placement.request import Change, Placement, PlacementRequest, SlotWish, check_gangs
from tests.placement.brute_force import locked, open_slots
from tests.placement.requests import DIVISIBLE, LARGER, MIXED, ODD_NODES, requests
from tests.thoroughness import examples

ANY = st.sampled_from([DIVISIBLE, ODD_NODES, MIXED, LARGER]).flatmap(requests)
KEPT = st.integers(min_value=0, max_value=8)


def again(request: PlacementRequest, placement: Placement) -> PlacementRequest:
    """The same wishes once the gangs lie where they were put."""
    return replace(request, present=placement.gangs, locked=locked(request))


@given(request=ANY, kept=KEPT)
def test_no_slot_is_given_twice_and_no_gang_is_scattered(request: PlacementRequest, kept: int) -> None:
    for placement in (place(request), pack(request, nodes_kept=kept).placement):
        check_gangs(placement.gangs, request.cluster.slots_per_node)


@given(request=ANY, kept=KEPT)
def test_gangs_lie_on_staying_nodes_unless_they_are_locked(request: PlacementRequest, kept: int) -> None:
    for placement in (place(request), pack(request, nodes_kept=kept).placement):
        for trial, gang in placement.gangs.items():
            allowed = request.cluster.nodes if trial in locked(request) else request.cluster.staying
            assert {slot.node for slot in gang} <= set(allowed)


@given(request=ANY, kept=KEPT)
def test_locked_gangs_are_not_touched(request: PlacementRequest, kept: int) -> None:
    for placement in (place(request), pack(request, nodes_kept=kept).placement):
        for trial in locked(request):
            assert placement.gangs[trial] == request.present[trial]
            assert placement.changes[trial] is Change.STAY


@given(request=ANY)
def test_no_trial_gets_more_than_wished_or_less_than_the_minimum_and_shortfalls_are_listed(
    request: PlacementRequest,
) -> None:
    placement = place(request)
    short = {shortfall.trial: shortfall for shortfall in placement.short}
    for wish in request.wishes:
        if wish.trial not in locked(request):
            granted = len(placement.gangs.get(wish.trial, ()))
            assert granted == 0 or min(request.min_slots, wish.slots) <= granted <= wish.slots
            assert (wish.trial in short) == (granted < wish.slots)
            assert granted == wish.slots or short[wish.trial].granted == granted
    assert placement.gangs.keys() <= {wish.trial for wish in request.wishes} | locked(request)


@given(request=ANY)
def test_changes_tell_the_way_from_the_present_to_the_placement(request: PlacementRequest) -> None:
    placement = place(request)
    up = set(request.cluster.nodes)
    assert placement.changes.keys() == request.present.keys() | placement.gangs.keys()
    for trial, change in placement.changes.items():
        before, after = set(request.present.get(trial, ())), set(placement.gangs.get(trial, ()))
        lost = any(slot.node not in up for slot in before)
        assert (change is Change.STOP) == (not after)
        assert (change is Change.START) == (bool(after) and (not before or lost))
        assert (change is Change.STAY) == (before == after and not lost)
        assert change is not Change.MOVE or len(before) == len(after)
        assert change is not Change.RESIZE or len(before) != len(after)


@examples(150, explore=400)
@given(request=ANY)
def test_placing_again_moves_nothing(request: PlacementRequest) -> None:
    placement = place(request)
    repeated = place(again(request, placement))
    assert repeated.gangs == placement.gangs
    assert set(repeated.changes.values()) <= {Change.STAY}


@examples(150, explore=400)
@given(request=ANY, kept=KEPT)
def test_packing_again_moves_nothing(request: PlacementRequest, kept: int) -> None:
    packing = pack(request, nodes_kept=kept)
    repeated = pack(again(request, packing.placement), nodes_kept=kept)
    assert repeated.placement.gangs == packing.placement.gangs
    assert repeated.release == packing.release


@given(request=ANY)
def test_nothing_moves_if_every_wish_is_what_lies_there(request: PlacementRequest) -> None:
    wishes = tuple(SlotWish(trial=trial, slots=len(gang)) for trial, gang in request.present.items())
    nodes = {slot.node: None for gang in request.present.values() for slot in gang}
    cluster = replace(request.cluster, nodes=tuple(nodes), leaving=frozenset())
    placement = place(replace(request, cluster=cluster, wishes=wishes))
    assert placement.gangs == request.present


@given(request=ANY, kept=KEPT)
def test_released_nodes_are_empty_and_as_many_as_asked_unless_locked(
    request: PlacementRequest, kept: int
) -> None:
    packing = pack(request, nodes_kept=kept)
    cluster = request.cluster
    assert not set(packing.release) & packing.placement.used_nodes
    assert [node for node in cluster.nodes if node in packing.release] == list(packing.release)
    held = packing.placement.used_nodes & cluster.leaving
    assert cluster.leaving & set(cluster.nodes) == held | (set(packing.release) & cluster.leaving)
    unlocked = open_slots(request).count(cluster.slots_per_node)
    staying = len(cluster.staying)
    assert len(set(packing.release) - cluster.leaving) == min(max(0, staying - kept), unlocked)


@given(request=ANY, random=st.randoms(use_true_random=False))
def test_the_order_of_a_mapping_does_not_matter(request: PlacementRequest, random: Random) -> None:
    items = list(request.present.items())
    random.shuffle(items)
    assert place(replace(request, present=dict(items))) == place(request)


@pytest.mark.slow
@settings(max_examples=5_000)
@given(request=ANY, kept=KEPT)
def test_placing_and_packing_again_move_nothing_in_many_cases(request: PlacementRequest, kept: int) -> None:
    placement = place(request)
    assert place(again(request, placement)).gangs == placement.gangs
    packed = pack(request, nodes_kept=kept).placement
    assert pack(again(request, packed), nodes_kept=kept).placement.gangs == packed.gangs
