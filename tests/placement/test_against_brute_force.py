"""The controller beside every possible placement, on clusters of up to 4 nodes and 6 gangs.

Where sizes divide each other (or take whole nodes) it has to be as good as brute force. For other sizes the
measured gap is asserted as a bound; see `docs/placement.md`.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from elastune.model.ids import TrialId
from elastune.placement.controller import Shrinking, pack, place
from elastune.placement.request import Placement, PlacementRequest, ShrinkTo
from tests.placement.brute_force import best_targets, fewest_moves, locked, moves, open_slots
from tests.placement.requests import DIVISIBLE, MIXED, ODD_NODES, Kind, random_request

CASES = 600
CASES_WITH_GAPS = 1_500  # fewer would not distinguish one in a thousand
MANY_CASES = 40_000


def granted(request: PlacementRequest, placement: Placement) -> dict[TrialId, int]:
    return {trial: len(gang) for trial, gang in placement.gangs.items() if trial not in locked(request)}


def wished(request: PlacementRequest) -> dict[TrialId, int]:
    return {wish.trial: wish.slots for wish in request.wishes if wish.trial not in locked(request)}


def allowed(request: PlacementRequest) -> dict[TrialId, list[int]]:
    shrinking = Shrinking(min_slots=request.min_slots, shrink_to=request.shrink_to)
    return {t: shrinking.sizes(slots, request.cluster.slots_per_node) for t, slots in wished(request).items()}


def compare(request: PlacementRequest, placement: Placement, *, closing: int = 0) -> Counter[str]:
    """What the controller does worse than brute force in one case."""
    ours, needed = granted(request, placement), fewest_moves(request, wished(request), closing=closing)
    seen = Counter(cases=1)
    if needed is None:
        seen["shrunk"] += 1
        seen["other sizes"] += ours != best_targets(request, allowed(request), closing=closing)
        needed = fewest_moves(request, ours, closing=closing)
        assert needed is not None
    elif ours != wished(request):
        seen["wish missed"] += 1
        return seen
    extra = moves(request, placement) - needed
    assert extra >= 0
    return seen + Counter({"must move": needed, "cases with extra moves": extra > 0, "extra moves": extra})


def campaign(kind: Kind, cases: int, *, shrink_to: ShrinkTo = ShrinkTo.POWER_OF_TWO) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in range(cases):
        random = Random(seed)
        request = random_request(random, kind, shrink_to=shrink_to)
        total += compare(request, place(request))
        kept = random.randint(0, len(request.cluster.nodes))
        empty = open_slots(request).count(request.cluster.slots_per_node)
        closing = min(max(0, len(request.cluster.staying) - kept), empty)
        total += compare(request, pack(request, nodes_kept=kept).placement, closing=closing)
    return total


def check_exact(total: Counter[str]) -> None:
    assert total["wish missed"] == 0
    assert total["other sizes"] == 0
    assert total["extra moves"] == 0
    assert total["must move"] > total["cases"] // 30  # else nothing was tested


def check_close(total: Counter[str]) -> None:
    """Measured over 80,000 placements: no wish missed; 15 grants that differ from the best (31 if any size is
    allowed); 10 (13) placements with one move too many."""
    assert total["wish missed"] == 0
    assert total["other sizes"] <= total["cases"] / 1_000
    assert total["extra moves"] <= total["cases"] / 1_000


@pytest.mark.parametrize("kind", [DIVISIBLE, ODD_NODES], ids=["powers of two", "odd nodes"])
def test_for_sizes_that_divide_each_other_wishes_shrinking_and_moves_are_those_of_brute_force(
    kind: Kind,
) -> None:
    check_exact(campaign(kind, CASES))


def test_for_other_sizes_the_gap_to_brute_force_is_small() -> None:
    check_close(campaign(MIXED, CASES_WITH_GAPS))
    check_close(campaign(MIXED, CASES_WITH_GAPS, shrink_to=ShrinkTo.ANY))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DIVISIBLE, ODD_NODES], ids=["powers of two", "odd nodes"])
def test_for_sizes_that_divide_each_other_nothing_is_worse_than_brute_force_in_many_cases(kind: Kind) -> None:
    check_exact(campaign(kind, MANY_CASES))


@pytest.mark.slow
@pytest.mark.parametrize("shrink_to", ShrinkTo)
def test_for_other_sizes_the_gap_to_brute_force_stays_small_in_many_cases(shrink_to: ShrinkTo) -> None:
    check_close(campaign(MIXED, MANY_CASES, shrink_to=shrink_to))
