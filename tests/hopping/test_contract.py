"""What holds for every scheduler, whatever the epoch is and whatever happens on the way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.hopping.epoch import Epoch
from elastune.hopping.epoch_state import Scheduler
from elastune.hopping.exact_scheduler import SolverEffort, exact_scheduler
from elastune.hopping.schedulers import make_scheduler
from elastune.hopping.simulation import check_schedule, simulate
from tests.hopping.epochs import ANY, epochs, everything_comes_back, grid, random_changes, random_epoch
from tests.thoroughness import examples

Make = Callable[[], Scheduler]
SCHEDULERS: dict[str, Make] = {
    "list": lambda: make_scheduler("list"),
    "randomized": lambda: make_scheduler("randomized", seed=7),
    "exact": lambda: exact_scheduler(SolverEffort(deterministic_s=0.1)),
}
SEEDS = st.integers(min_value=0, max_value=2**32)

each_scheduler = pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS)


@each_scheduler
@examples(6, explore=25)
@given(epoch=epochs(ANY))
def test_every_promise_is_kept(make: Make, epoch: Epoch) -> None:
    schedule = simulate(epoch, make())
    check_schedule(epoch, schedule)
    held = set().union(*(worker.partitions for worker in epoch.workers))
    assert all(unit.partition not in held for unit in schedule.unfinished)
    assert schedule.bound_s <= schedule.makespan_s * (1 + 1e-9)
    assert 0 <= schedule.utilisation <= 1 + 1e-9


def test_a_model_that_is_on_the_only_node_has_no_hop_in_the_bound() -> None:
    schedule = simulate(random_epoch(Random(266), ANY), make_scheduler("list"))
    assert schedule.bound_s == schedule.makespan_s


@each_scheduler
@examples(6, explore=25)
@given(epoch=epochs(ANY), seed=SEEDS)
def test_every_promise_is_kept_while_workers_come_and_go(make: Make, epoch: Epoch, seed: int) -> None:
    changes = random_changes(Random(seed), epoch)
    schedule = simulate(epoch, make(), changes=changes)
    check_schedule(epoch, schedule, changes)
    assert schedule.bound_s <= schedule.makespan_s * (1 + 1e-9) or schedule.unfinished


@each_scheduler
@examples(3, explore=12)
@given(epoch=epochs(ANY), seed=SEEDS)
def test_units_wait_for_their_partition_and_all_end_when_it_is_back(
    make: Make, epoch: Epoch, seed: int
) -> None:
    changes = everything_comes_back(epoch, random_changes(Random(seed), epoch))
    schedule = simulate(epoch, make(), changes=changes)
    check_schedule(epoch, schedule, changes)
    assert not schedule.unfinished


@each_scheduler
@examples(3, explore=12)
@given(epoch=epochs(ANY), seed=SEEDS)
def test_times_that_were_not_expected_do_no_harm(make: Make, epoch: Epoch, seed: int) -> None:
    random = Random(seed)
    schedule = simulate(
        epoch, make(), actual_s=lambda _u, _w, expected_s: expected_s * random.uniform(0.3, 3)
    )
    held = set().union(*(worker.partitions for worker in epoch.workers))
    assert len({visit.unit for visit in schedule.visits}) == len(schedule.visits)
    assert all(unit.partition not in held for unit in schedule.unfinished)


@each_scheduler
@examples(3, explore=12)
@given(epoch=epochs(ANY), seed=SEEDS)
def test_the_same_epoch_gives_the_same_schedule(make: Make, epoch: Epoch, seed: int) -> None:
    changes = random_changes(Random(seed), epoch)
    assert simulate(epoch, make(), changes=changes) == simulate(epoch, make(), changes=changes)


@each_scheduler
@pytest.mark.parametrize(("trials", "workers"), [(3, 7), (8, 4)])
def test_epochs_of_some_size_are_complete(make: Make, trials: int, workers: int) -> None:
    random = Random(trials)
    epoch = grid([[random.uniform(1, 20) for _ in range(workers)] for _ in range(trials)], replicas=2)
    schedule = simulate(epoch, make())
    check_schedule(epoch, schedule)
    assert len(schedule.visits) == trials * workers
