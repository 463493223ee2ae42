"""How good schedules are: beside every possible one where that can be counted, and beside the bound."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from elastune.hopping.epoch import Epoch
from elastune.hopping.exact_scheduler import SolverEffort, solve
from elastune.hopping.lower_bound import lower_bound_s
from elastune.hopping.schedulers import make_scheduler
from elastune.hopping.simulation import simulate
from tests.hopping.brute_force import shortest_s
from tests.hopping.epochs import TINY, Kind, epochs, grid
from tests.thoroughness import examples, most_telling
from tests.waiting import PATIENCE_S

FRESH = Kind(max_trials=3, max_partitions=2, max_workers=3, hops=False, begun=False)


@examples(40, explore=100)
@given(epoch=epochs(TINY))
def test_nothing_is_shorter_than_the_bound(epoch: Epoch) -> None:
    assert lower_bound_s(epoch) <= shortest_s(epoch) * (1 + 1e-9)


@examples(25, explore=60)
@given(epoch=epochs(TINY))
def test_exact_is_as_short_as_possible_and_proves_it(epoch: Epoch) -> None:
    solved = solve(epoch, SolverEffort(limit_s=PATIENCE_S))
    assert solved.schedule is not None
    assert solved.optimal
    assert solved.schedule.makespan_s == pytest.approx(shortest_s(epoch))
    assert solved.bound_s <= shortest_s(epoch) * (1 + 1e-9)


@examples(15, explore=30)
@given(epoch=epochs(FRESH))
def test_exact_finds_the_same_without_a_first_schedule(epoch: Epoch) -> None:
    cold = solve(epoch, SolverEffort(limit_s=PATIENCE_S, warm=False))
    assert cold.schedule is not None
    assert cold.schedule.makespan_s == pytest.approx(shortest_s(epoch))


@examples(25, explore=60)
@given(epoch=epochs(FRESH))
def test_list_is_near_the_shortest_in_tiny_epochs_too(epoch: Epoch) -> None:
    assert simulate(epoch, make_scheduler("list")).makespan_s <= 1.5 * shortest_s(epoch)


@pytest.mark.parametrize(("trials", "workers"), [(5, 5), (12, 12), (7, 4), (4, 7), (16, 6), (1, 3)])
def test_list_is_optimal_where_all_units_take_equally_long(trials: int, workers: int) -> None:
    schedule = simulate(grid([[2.0] * workers] * trials), make_scheduler("list"))
    assert schedule.makespan_s == 2.0 * max(trials, workers)
    assert schedule.gap == 0.0


@most_telling("seed", *range(6), quick=2)
def test_list_is_within_a_percent_where_trials_and_workers_differ(seed: int) -> None:
    random = Random(seed)
    speeds = [random.choice((12.1, 5.6, 11.3, 18.7)) for _ in range(8)]
    costs = [random.choice((0.4, 0.7, 2, 4, 8, 16, 21)) for _ in range(16)]
    epoch = grid([[cost / speed for speed in speeds] for cost in costs])
    schedule = simulate(epoch, make_scheduler("list"))
    assert schedule.gap < 0.01
    for other in range(4):
        assert (
            schedule.makespan_s <= simulate(epoch, make_scheduler("randomized", seed=other)).makespan_s * 1.01
        )


def test_replicas_let_the_fast_relieve_the_slow() -> None:
    alone = grid([[10.0, 1.0, 1.0]] * 6)
    shared = grid([[10.0, 1.0, 1.0]] * 6, replicas=2)
    assert simulate(alone, make_scheduler("list")).makespan_s >= 60.0
    assert simulate(shared, make_scheduler("list")).makespan_s <= 20.0
