"""The rule by which all gangs stay, against the controller: whichever trials survive, wherever they are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from elastune.model.ids import NodeId, Slot, TrialId
from elastune.placement.controller import pack
from elastune.placement.request import Change, PlacementNodes, PlacementRequest, SlotWish
from elastune.placement.staying import StageGangs, all_gangs_stay, may_stay
from elastune.planning.prediction.plan import allocate


def moves(*, slots: int, size: int, before: int, survivors: tuple[int, ...], held: int) -> int:
    """How many of the survivors move if so many nodes are kept; the gangs had started on the fewest nodes."""
    nodes = allocate(gangs=before, slots_per_trial=slots, slots_per_node=size).nodes
    names = [NodeId(f"n{number}") for number in range(nodes)]
    each, several = max(1, size // slots), -(-slots // size)
    gangs = {}
    for number in range(before):
        first = number // each * several
        where = [Slot(names[first + i // size], i % size) for i in range(slots)]
        gangs[TrialId(number)] = tuple(s._replace(number=s.number + number % each * slots) for s in where)
    going = {TrialId(number): gangs[TrialId(number)] for number in survivors}
    request = PlacementRequest(
        cluster=PlacementNodes(nodes=tuple(names), slots_per_node=size),
        wishes=tuple(SlotWish(trial=trial, slots=slots) for trial in going),
        present=going,
        min_slots=slots,
    )
    placement = pack(request, nodes_kept=held).placement
    assert placement.gangs.keys() == going.keys()
    return len(placement.trials(Change.MOVE))


@given(st.integers(1, 8), st.integers(1, 4), st.integers(2, 8), st.data())
def test_where_the_rule_says_so_no_survivor_moves_and_otherwise_one_may(
    slots: int, size: int, before: int, data: st.DataObject
) -> None:
    trials = data.draw(st.integers(1, before - 1))
    least = allocate(gangs=trials, slots_per_trial=slots, slots_per_node=size).nodes
    used = allocate(gangs=before, slots_per_trial=slots, slots_per_node=size).nodes
    held = data.draw(st.integers(least, used))
    says = all_gangs_stay(
        StageGangs(slots=slots, gangs=before, trials=before, nodes=used),
        StageGangs(slots=slots, gangs=trials, trials=trials, nodes=held),
        waiting_is_billed=False,
    )
    worst = max(
        moves(slots=slots, size=size, before=before, survivors=survivors, held=held)
        for survivors in combinations(range(before), trials)
    )
    assert (worst == 0) is says


def test_gangs_of_another_size_or_that_take_turns_move() -> None:
    rule = partial(all_gangs_stay, waiting_is_billed=False)
    at_once = StageGangs(slots=2, gangs=4, trials=4, nodes=4)
    assert rule(at_once, at_once)
    assert not rule(at_once, replace(at_once, slots=4))
    assert not rule(replace(at_once, gangs=3), at_once)
    assert not rule(at_once, replace(at_once, gangs=3))


def test_where_slots_are_billed_no_gang_waits() -> None:
    assert may_stay(slots_before=2, slots_now=2, waiting_is_billed=False)
    assert not may_stay(slots_before=2, slots_now=2, waiting_is_billed=True)
