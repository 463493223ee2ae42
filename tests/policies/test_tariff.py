"""What rounds take: nodes against brute force, prices against what simulated runs are billed."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from elastune.policies.costs import RoundCost, RoundCosts
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import job_of


def tariff(**changes: object) -> RoundCosts:
    return RoundCosts.of(prepare(job_of(**changes), samples=16).terms)


def packs(gangs: tuple[int, ...], nodes: int, per_node: int) -> bool:
    """By trying everything."""
    bins = [per_node] * nodes

    def place(rest: tuple[int, ...]) -> bool:
        if not rest:
            return True
        for index in range(nodes):
            if bins[index] >= rest[0]:
                bins[index] -= rest[0]
                if place(rest[1:]):
                    return True
                bins[index] += rest[0]
        return False

    return place(tuple(sorted(gangs, reverse=True)))


@settings(max_examples=150)
@given(per_node=st.sampled_from([1, 2, 4, 8]), sizes=st.lists(st.sampled_from([1, 2, 4, 8]), max_size=7))
def test_gangs_that_divide_each_other_take_the_fewest_nodes(per_node: int, sizes: list[int]) -> None:
    small = tuple(size for size in sizes if size <= per_node)
    whole = sum(size // per_node for size in sizes if size > per_node)
    found = tariff(cluster__slots_per_node=per_node).nodes_for(sizes) - whole
    assert packs(small, found, per_node)
    assert found == 0 or not packs(small, found - 1, per_node)


def test_a_gang_larger_than_a_node_takes_whole_nodes() -> None:
    assert tariff(cluster__slots_per_node=4).nodes_for([6, 1]) == 3


def test_legs_are_billed_with_boot_whole_nodes_and_the_last_save() -> None:
    """Two slots a node, a cent per node and second: 4 trials, then 1, each boot 10 s, save 1 s."""
    legs = [RoundCost(seconds=100.0, gangs=(1, 1, 1, 1)), RoundCost(seconds=200.0, gangs=(2,))]
    assert round(tariff().price_usd([legs]), 6) == round((2 * 10 + 2 * 100 + 1 * 201) * 0.01, 6)


def test_nodes_that_a_later_round_needs_are_held_until_then() -> None:
    legs = [RoundCost(seconds=100.0, gangs=(1,)), RoundCost(seconds=100.0, gangs=(1, 1, 1))]
    assert tariff().nodes_held([legs]) == 2
    assert round(tariff().price_usd([legs]), 6) == round((2 * 10 + 2 * 100 + 2 * 101) * 0.01, 6)


def test_a_minimum_charge_is_paid_by_nodes_that_leave_early() -> None:
    legs = [RoundCost(seconds=20.0, gangs=(1, 1, 1, 1)), RoundCost(seconds=100.0, gangs=(1,))]
    assert round(tariff().price_usd([legs]), 6) == round((60 + 10 + 20 + 101) * 0.01, 6)


def test_a_fixed_cluster_is_paid_whole_to_the_end() -> None:
    fixed = tariff(cluster__max_nodes=None, cluster__nodes=3)
    legs = [RoundCost(seconds=100.0, gangs=(1, 1)), RoundCost(seconds=100.0, gangs=(1,))]
    assert round(fixed.price_usd([legs]), 6) == round(3 * (10 + 100 + 101) * 0.01, 6)


def test_functions_are_billed_by_slots() -> None:
    by_slot = tariff(cluster__billing="function")
    legs = [RoundCost(seconds=100.0, gangs=(2, 1)), RoundCost(seconds=100.0, gangs=(2,))]
    assert round(by_slot.price_usd([legs]), 6) == round((300 + 200 + 2) * 0.005, 6)


def test_tracks_run_side_by_side() -> None:
    tracks = [
        [RoundCost(seconds=50.0, gangs=(1, 1)), RoundCost(seconds=150.0, gangs=(1,))],
        [RoundCost(seconds=100.0, gangs=(1, 1))],
    ]
    held = [(50.0, 2), (50.0, 2), (100.0, 1)]
    expected = 2 * 10 + sum(seconds * nodes for seconds, nodes in held) + 1
    assert round(tariff().price_usd(tracks), 6) == round(expected * 0.01, 6)
    assert tariff().seconds(tracks) == 200.0


def test_what_is_booted_pays_no_boot() -> None:
    legs = [RoundCost(seconds=100.0, gangs=(1,))]
    assert round(tariff().price_usd([legs], booted=True), 6) == 1.01


def test_the_price_grows_with_every_gang() -> None:
    prices = [
        tariff().price_usd([[RoundCost(seconds=100.0, gangs=(1,) * count)]]) for count in (1, 2, 3, 4, 5, 6)
    ]
    assert all(a <= b for a, b in itertools.pairwise(prices))
