"""Where partitions lie: on enough workers, on different machines, evenly, and moved as little as possible."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elastune.hopping.epoch import Epoch, HopWorker, PartitionId, WorkerId
from elastune.hopping.layout import Layout, WorkerPlace, lay_out
from elastune.hopping.lower_bound import lower_bound_s
from elastune.model.ids import TrialId

Sizes = dict[PartitionId, float]


def places(*nodes: int) -> list[WorkerPlace]:
    """So many workers on each node."""
    return [
        WorkerPlace(WorkerId(f"n{node}:{slot}"), f"n{node}", (f"host{node}",))
        for node, slots in enumerate(nodes)
        for slot in range(slots)
    ]


def equal(count: int) -> Sizes:
    return {PartitionId(number): 1.0 for number in range(count)}


def holders(layout: Layout, partition: PartitionId) -> list[WorkerId]:
    return [worker for worker, held in layout.items() if partition in held]


def moves(before: Layout, after: Layout) -> int:
    """What has to be loaded where it was not."""
    return sum(len(held - before.get(worker, frozenset())) for worker, held in after.items())


def loads(layout: Layout, sizes: Mapping[PartitionId, float]) -> dict[WorkerId, float]:
    copies = {partition: len(holders(layout, partition)) for partition in sizes}
    return {worker: sum(sizes[each] / copies[each] for each in held) for worker, held in layout.items()}


clusters = st.lists(st.integers(1, 3), min_size=1, max_size=4).map(lambda nodes: places(*nodes))
partitions = st.lists(st.sampled_from([0.25, 0.5, 1.0, 1.0, 1.0, 3.0]), min_size=1, max_size=9).map(
    lambda sizes: {PartitionId(number): size for number, size in enumerate(sizes)}
)


@st.composite
def hosts(draw: st.DrawFn, sizes: Sizes) -> dict[int, frozenset[str]]:
    """Of some partitions: the machines that can reach them, of which some may not be there."""
    names = st.frozensets(st.sampled_from([f"host{n}" for n in range(5)]), min_size=1)
    return {number: draw(names) for number in sizes if draw(st.booleans())}


@given(clusters, partitions, st.integers(1, 3), st.data())
def test_every_partition_has_as_many_holders_as_wanted_and_possible(
    workers: list[WorkerPlace], sizes: Sizes, replicas: int, data: st.DataObject
) -> None:
    allowed = data.draw(hosts(sizes))
    layout = lay_out(workers, sizes, replicas=replicas, hosts=allowed)
    assert set(layout) == {place.worker for place in workers}
    nodes = {place.worker: place.node for place in workers}
    for partition in sizes:
        may = [
            place for place in workers if not allowed.get(partition, {place.names[0]}).isdisjoint(place.names)
        ]
        held_by = holders(layout, partition)
        assert set(held_by) <= {place.worker for place in may}, "hosts are respected"
        surplus = [worker for worker in held_by if len(layout[worker]) == 1]  # had nothing else to hold
        assert min(replicas, len(may)) <= len(held_by) <= max(replicas, 1) + len(surplus)
        apart = len({nodes[worker] for worker in held_by})
        assert apart >= min(replicas, len({place.node for place in may})), "on different machines"


@given(clusters, partitions, st.integers(1, 3))
def test_who_could_hold_something_does(workers: list[WorkerPlace], sizes: Sizes, replicas: int) -> None:
    """An idle worker takes a copy."""
    layout = lay_out(workers, sizes, replicas=replicas)
    assert all(layout.values())


@given(clusters, st.integers(1, 12))
def test_equal_partitions_are_spread_evenly(workers: list[WorkerPlace], count: int) -> None:
    assume(count >= len(workers))
    held = [len(each) for each in lay_out(workers, equal(count)).values()]
    assert max(held) - min(held) <= 1
    assert sum(held) == count


@given(clusters, partitions)
def test_no_partition_could_move_to_make_the_fullest_less_full(
    workers: list[WorkerPlace], sizes: Sizes
) -> None:
    assume(len(sizes) >= len(workers))
    layout = lay_out(workers, sizes)
    load = loads(layout, sizes)
    for full, held in layout.items():
        for empty in layout:
            gap = load[full] - load[empty]
            assert not [each for each in held if sizes[each] < gap - 1e-9]


@given(clusters, partitions, st.integers(1, 3))
def test_as_long_as_nobody_comes_or_goes_nothing_moves(
    workers: list[WorkerPlace], sizes: Sizes, replicas: int
) -> None:
    before = lay_out(workers, sizes, replicas=replicas)
    after = lay_out(workers, sizes, replicas=replicas, before=before)
    assert moves(before, after) == 0


@given(st.integers(2, 6), st.integers(1, 12), st.data())
def test_a_worker_that_is_lost_costs_what_it_held_and_no_more(
    count: int, partitions: int, data: st.DataObject
) -> None:
    assume(partitions >= count)
    workers = places(*(1,) * count)
    before = lay_out(workers, equal(partitions))
    gone = data.draw(st.sampled_from(workers))
    left = [place for place in workers if place is not gone]
    after = lay_out(left, equal(partitions), before=before)
    assert moves(before, after) == len(before[gone.worker])
    held = [len(each) for each in after.values()]
    assert max(held) - min(held) <= 1


@given(st.integers(1, 6), st.integers(1, 12))
def test_a_worker_that_joins_takes_its_part_and_nobody_else_loads_anything(
    count: int, partitions: int
) -> None:
    assume(partitions > count)
    before = lay_out(places(*(1,) * count), equal(partitions))
    workers = places(*(1,) * (count + 1))
    after = lay_out(workers, equal(partitions), before=before)
    assert moves(before, after) == len(after[workers[-1].worker])
    held = [len(each) for each in after.values()]
    assert max(held) - min(held) <= 1


@given(clusters, clusters, partitions, st.integers(1, 3))
def test_after_any_change_of_workers_all_is_held_as_if_laid_out_anew(
    first: list[WorkerPlace], second: list[WorkerPlace], sizes: Sizes, replicas: int
) -> None:
    before = lay_out(first, sizes, replicas=replicas)
    after = lay_out(second, sizes, replicas=replicas, before=before)
    for partition in sizes:
        assert len(holders(after, partition)) >= min(replicas, len(second))
    assert all(after.values())


@given(clusters, clusters, partitions, st.integers(2, 3))
def test_copies_that_lay_on_one_machine_part_when_another_comes(
    first: list[WorkerPlace], second: list[WorkerPlace], sizes: Sizes, replicas: int
) -> None:
    nodes = {place.worker: place.node for place in second}
    before = lay_out(first, sizes, replicas=replicas)
    after = lay_out(second, sizes, replicas=replicas, before=before)
    for partition in sizes:
        apart = {nodes[worker] for worker in holders(after, partition)}
        assert len(apart) >= min(replicas, len(set(nodes.values())))


def test_a_partition_that_nobody_may_hold_stays_out() -> None:
    layout = lay_out(places(1, 1), equal(3), hosts={1: frozenset({"elsewhere"})})
    assert sorted(partition for held in layout.values() for partition in held) == [0, 2]


@pytest.mark.parametrize("replicas", [1, 2])
def test_nobody_holds_nothing(replicas: int) -> None:
    assert lay_out([], equal(3), replicas=replicas) == {}
    assert lay_out(places(2), {}, replicas=replicas) == {"n0:0": frozenset(), "n0:1": frozenset()}


@pytest.mark.parametrize(("count", "workers"), [(8, 8), (12, 12), (16, 8)])
def test_copies_link_all_workers_so_that_all_relieve_each_other_after_a_loss(
    count: int, workers: int
) -> None:
    """With workers in pairs of the same data, an epoch took 25 % longer after the loss of one of them."""
    sizes, all_ = equal(count), places(*[1] * workers)
    before = lay_out(all_, sizes, replicas=2)
    trials = tuple(TrialId(number) for number in range(workers - 1))
    epoch = Epoch(
        trials=trials,
        partitions=tuple(sizes),
        workers=tuple(
            HopWorker(id=worker, partitions=held, unit_s=dict.fromkeys(trials, 1.0))
            for worker, held in lay_out(all_[:-1], sizes, replicas=2, before=before).items()
        ),
    )
    assert lower_bound_s(epoch) == pytest.approx(count)
