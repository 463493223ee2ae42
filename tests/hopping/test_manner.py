"""What an epoch takes in each manner, which manner is chosen, and that real schedules agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.errors import InvariantError
from elastune.hopping.epoch import Epoch, PartitionId, WorkerId
from elastune.hopping.layout import WorkerPlace, lay_out, shares_of_all
from elastune.hopping.lower_bound import lower_bound_s
from elastune.hopping.partitions import (
    TrainingMode,
    busiest_part,
    choose_manner,
    gang_size,
    hopping_share,
    measured_speedup,
    probes,
    together_share,
    useful_workers,
)
from elastune.hopping.schedulers import make_scheduler
from elastune.hopping.simulation import simulate
from elastune.model.ids import TrialId
from elastune.model.profile import Speedup
from tests.hopping.epochs import worker
from tests.thoroughness import examples

LINEAR = Speedup.of({2: 2.0, 4: 4.0, 8: 8.0})


def alike(trials: int, workers: int, partitions: int, replicas: int = 1) -> Epoch:
    """Trials that take one second each, on workers that share the data as in a run."""
    places = [WorkerPlace(WorkerId(f"w{w}"), f"n{w}") for w in range(workers)]
    numbers = tuple(PartitionId(p) for p in range(partitions))
    layout = lay_out(places, dict.fromkeys(numbers, 1.0), replicas=replicas)
    return Epoch(
        trials=tuple(TrialId(t) for t in range(trials)),
        partitions=numbers,
        workers=tuple(
            worker(name, sorted(held), dict.fromkeys(range(trials), 1.0 / partitions))
            for name, held in layout.items()
        ),
    )


shapes = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))


@given(shapes)
@examples(30, explore=60)
def test_alike_trials_take_the_open_shop_bound_and_a_schedule_keeps_it(shape: tuple[int, int, int]) -> None:
    trials, workers, partitions = shape
    epoch = alike(trials, min(workers, partitions), partitions)
    share = hopping_share(*shape)
    assert lower_bound_s(epoch) == pytest.approx(share)
    assert simulate(epoch, make_scheduler("list")).makespan_s == pytest.approx(share)


@given(shapes, st.integers(2, 3))
@examples(20, explore=60)
def test_with_replicas_a_schedule_is_at_least_as_fast_as_promised(
    shape: tuple[int, int, int], replicas: int
) -> None:
    epoch = alike(*shape, replicas)
    share = hopping_share(*shape, replicas)
    assert lower_bound_s(epoch) <= share * (1 + 1e-6)
    assert simulate(epoch, make_scheduler("list")).makespan_s <= share * (1 + 1e-6)


@given(shapes, st.integers(1, 3))
def test_more_workers_never_take_longer(shape: tuple[int, int, int], replicas: int) -> None:
    trials, workers, partitions = shape
    here = hopping_share(trials, workers, partitions, replicas)
    assert hopping_share(trials, workers + 1, partitions, replicas) <= here


def test_the_shares_by_hand() -> None:
    assert hopping_share(8, 4, 4) == 2.0
    assert hopping_share(2, 4, 4) == 1.0  # the longest trial
    assert hopping_share(8, 4, 6) == pytest.approx(8 * 2 / 6)  # two workers hold two of six partitions
    assert hopping_share(8, 4, 6, replicas=2) == 2.0  # three halves each: replicas even that out
    assert hopping_share(8, 9, 4) == 2.0  # five workers hold nothing
    assert hopping_share(9, 8, 4, replicas=2) == 5 / 4  # nine units on two holders: one does five
    assert busiest_part(8, 4, 4) == 0.25
    assert together_share(2, 4, LINEAR) == 0.5


def test_slots_beyond_the_copies_of_the_data_are_of_no_use() -> None:
    assert useful_workers(10, 4) == 4
    assert useful_workers(10, 4, 2) == 8
    assert useful_workers(3, 4) == 3
    with pytest.raises(InvariantError, match="workers=0"):
        useful_workers(0, 4)


def test_few_trials_train_together_where_that_is_faster() -> None:
    assert choose_manner(2, 8, 8, LINEAR.at(8)) is TrainingMode.TOGETHER
    assert choose_manner(8, 8, 8, LINEAR.at(8)) is TrainingMode.HOPPING  # as fast, and nothing to synchronise
    assert choose_manner(2, 8, 8, 1.5) is TrainingMode.HOPPING


def test_without_a_measured_gain_trials_hop() -> None:
    assert measured_speedup(Speedup.of({}), 8) is None
    assert measured_speedup(LINEAR, 4) == 4.0
    assert [choose_manner(trials, 8, 8, None) for trials in (1, 3, 4)] == [TrainingMode.HOPPING] * 3


def test_the_last_trial_measures_the_gain_if_it_has_enough_left() -> None:
    assert probes(1, 8, 8, 8)
    assert not probes(2, 8, 8, 8)  # another one would wait
    assert not probes(1, 7, 8, 8)
    assert not probes(1, 8, 8, 8, most_slots=4)
    assert not probes(1, 8, 1, 8)


def test_a_trial_that_may_not_have_all_workers_hops() -> None:
    assert choose_manner(1, 8, 8, 8.0, most_slots=4) is TrainingMode.HOPPING
    assert choose_manner(1, 8, 8, 8.0, most_slots=8) is TrainingMode.TOGETHER
    assert choose_manner(1, 1, 8, 1.0) is TrainingMode.HOPPING


def test_workers_with_unequal_data_train_together_too() -> None:
    assert choose_manner(1, 4, 6, 4.0) is TrainingMode.TOGETHER
    assert choose_manner(1, 6, 4, 6.0) is TrainingMode.TOGETHER
    assert choose_manner(1, 4, 8, 4.0, replicas=2) is TrainingMode.TOGETHER
    assert [gang_size(8, partitions) for partitions in (1, 4, 8, 9, 12, 15, 16)] == [1, 4, 8, 8, 8, 7, 8]


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 3), st.integers(0, 5))
def test_a_gang_of_all_sees_every_partition_and_all_members_take_as_many_steps(
    workers: int, partitions: int, replicas: int, validation: int
) -> None:
    places = [WorkerPlace(WorkerId(f"w{w}"), f"n{w}") for w in range(workers)]
    kinds = [
        tuple(PartitionId(p) for p in range(partitions)),
        tuple(PartitionId(p) for p in range(partitions, partitions + validation)),
    ]
    parts = [lay_out(places, dict.fromkeys(kind, 1.0), replicas=replicas) for kind in kinds]
    layout = {place.worker: parts[0][place.worker] | parts[1][place.worker] for place in places}
    shares = shares_of_all(layout, kinds)
    assert len({len(share) for share in shares.values()}) == 1
    steps = list(zip(*shares.values(), strict=True))
    seen = [step[0] for step in steps if len(set(step)) == 1 and len(step) > 1]
    own = [number for step in steps if len(set(step)) > 1 or len(step) == 1 for number in step]
    assert sorted(own + seen) == list(range(partitions + validation))
    if len(shares) > 1:
        assert all(set(share) - set(seen) <= layout[member] for member, share in shares.items())
    assert len(shares) == gang_size(workers, partitions)
    assert not shares_of_all(layout, kinds, most=0)
