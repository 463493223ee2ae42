"""Algorithm 3 on its own, as it is used when an exact answer would take too long."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from elastune.placement.controller import survey
from elastune.placement.displacement import displace
from elastune.placement.eviction import evict
from elastune.placement.request import PlacementRequest
from tests.placement.requests import DIVISIBLE, ODD_NODES, Kind, requests

LARGE = Kind(sizes={4: (1, 1, 2, 4), 8: (1, 1, 2, 4, 8)}, max_nodes=12, max_gangs=40)


@given(
    request=st.sampled_from([DIVISIBLE, ODD_NODES, LARGE]).flatmap(requests),
    closing=st.integers(min_value=0, max_value=3),
)
def test_it_seats_all_that_fit_if_sizes_divide_each_other(request: PlacementRequest, closing: int) -> None:
    task = survey(request, closing=closing)
    assume(not task.lack({}))
    seats = displace(task)
    assert seats is not None
    assert seats.keys() == task.targets.keys()
    assert task.free_slots(seats).count(task.slots_per_node) >= task.closing
    assert min(task.free_slots(seats), default=0) >= 0
    evicted = evict(task)
    assert evicted is not None
    assert task.moves(seats) >= len(evicted)
