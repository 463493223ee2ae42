"""Schedules in small: what is counted, what a loss costs, and what the checker finds."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from elastune.errors import InvariantError, JobError
from elastune.hopping.epoch import Epoch, Hops, Schedule, ScheduledVisit, WorkerId, WorkerJoined, WorkerLost
from elastune.hopping.epoch_state import EpochState
from elastune.hopping.exact_scheduler import Planned, SolverEffort, solve
from elastune.hopping.schedulers import make_scheduler
from elastune.hopping.simulation import Change, check_schedule, simulate
from elastune.model.ids import TrialId
from tests.hopping.epochs import grid, unit, worker

W0, W1 = WorkerId("w0"), WorkerId("w1")
TWO = grid([[1.0, 2.0], [3.0, 4.0]])


def test_visits_are_told_with_worker_and_time() -> None:
    schedule = simulate(TWO, make_scheduler("list"))
    told = [(v.unit.trial, v.unit.partition, v.worker, v.start_s, v.end_s) for v in schedule.visits]
    assert told == [(0, 1, W1, 0.0, 2.0), (1, 0, W0, 0.0, 3.0), (0, 0, W0, 3.0, 4.0), (1, 1, W1, 3.0, 7.0)]
    assert (schedule.makespan_s, schedule.bound_s, schedule.gap) == (7.0, 7.0, 0.0)
    assert schedule.utilisation == pytest.approx(10 / 14)


def test_a_lost_unit_runs_again_where_a_replica_is() -> None:
    epoch = grid([[4.0, 4.0]], replicas=2)
    changes = [WorkerLost(at_s=1.0, worker=W0)]
    schedule = simulate(epoch, make_scheduler("list"), changes=changes)
    assert [(cut.worker, cut.start_s, cut.end_s) for cut in schedule.cut] in ([(W0, 0.0, 1.0)], [])
    assert {visit.worker for visit in schedule.visits} == {W1}
    assert not schedule.unfinished


def test_a_lost_unit_without_a_replica_waits_for_its_partition() -> None:
    changes: list[Change] = [
        WorkerLost(at_s=0.5, worker=W0),
        WorkerJoined(at_s=50.0, worker=worker("w2", [0], {0: 1.0, 1: 1.0})),
    ]
    schedule = simulate(TWO, make_scheduler("list"), changes=changes)
    late = [(visit.unit.partition, visit.start_s) for visit in schedule.visits if visit.worker == "w2"]
    assert late == [(0, 50.0), (0, 51.0)]
    assert simulate(TWO, make_scheduler("list"), changes=changes[:1]).unfinished == (unit(0, 0), unit(1, 0))


def test_hops_take_time_and_are_counted() -> None:
    hops = Hops(seconds={TrialId(0): 0.5}, model_bytes={TrialId(0): 100}, at={TrialId(0): W0})
    epoch = replace(grid([[1.0, 1.0]]), hops=hops)
    schedule = simulate(epoch, make_scheduler("list"))
    assert (schedule.hops, schedule.hop_bytes) in ((1, 100), (2, 200))
    assert schedule.makespan_s == 2.0 + 0.5 * schedule.hops
    assert schedule.bound_s == 2.5


def test_a_trial_stays_where_that_saves_a_hop() -> None:
    both = worker("w0", [0, 1], {0: 1.0, 1: 1.0})
    hops = Hops(seconds={TrialId(0): 2.0, TrialId(1): 2.0})
    epoch = replace(grid([[1.0, 1.0], [1.0, 1.0]]), workers=(both,), hops=hops)
    schedule = simulate(epoch, make_scheduler("list"))
    assert (schedule.hops, schedule.makespan_s) == (2, 8.0)


def test_a_plan_is_kept_in_order_when_times_are_not() -> None:
    planned = simulate(TWO, make_scheduler("list"))
    kept = simulate(TWO, Planned(lambda _: planned.visits), actual_s=lambda each, _w, s: s * (3 - each.trial))
    for name in (W0, W1):
        order = [visit.unit for visit in planned.visits if visit.worker == name]
        assert [visit.unit for visit in kept.visits if visit.worker == name] == order


def test_another_seed_gives_another_random_order() -> None:
    epoch = grid([[1.0, 2.0, 3.0]] * 6)
    orders = {
        tuple(visit.unit for visit in simulate(epoch, make_scheduler("randomized", seed=s)).visits)
        for s in range(5)
    }
    assert len(orders) == 5


def test_asking_in_vain_draws_nothing() -> None:
    epoch = grid([[1.0, 2.0, 3.0]] * 6)
    asked, busy = (
        make_scheduler("randomized", seed=1),
        EpochState(Epoch(trials=(), partitions=(), workers=())),
    )
    for _ in range(10):
        assert asked.dispatch(busy) == ()
    assert simulate(epoch, asked) == simulate(epoch, make_scheduler("randomized", seed=1))


def moved(schedule: Schedule, to_s: dict[tuple[int, int], float]) -> list[ScheduledVisit]:
    """The visits, some of them at another time."""
    starts = {unit(*pair): at_s for pair, at_s in to_s.items()}
    return [
        replace(v, start_s=starts[v.unit], end_s=starts[v.unit] + v.end_s - v.start_s)
        if v.unit in starts
        else v
        for v in schedule.visits
    ]


def broken(schedule: Schedule, promise: str) -> Schedule:
    first, *rest = schedule.visits
    visits = {
        "complete": rest,
        "isolated": moved(schedule, {(0, 0): 1.5, (1, 0): 20.0, (1, 1): 30.0}),
        "exclusive": moved(schedule, {(1, 1): 1.0, (1, 0): 20.0}),
        "available": [replace(first, worker=W0, start_s=20.0, end_s=21.0), *rest],
        "in one piece": [replace(first, end_s=first.end_s - 0.5), *rest],
    }[promise]
    return replace(schedule, visits=tuple(visits))


@pytest.mark.parametrize("promise", ["complete", "isolated", "exclusive", "available", "in one piece"])
def test_a_broken_promise_is_found(promise: str) -> None:
    schedule = simulate(TWO, make_scheduler("list"))
    check_schedule(TWO, schedule)
    with pytest.raises(InvariantError, match=f"not {promise}"):
        check_schedule(TWO, broken(schedule, promise))


def test_a_second_visit_is_found() -> None:
    schedule = simulate(TWO, make_scheduler("list"))
    again = replace(schedule.visits[0], start_s=50.0, end_s=52.0)
    with pytest.raises(InvariantError, match="visited 2 times, expected 1"):
        check_schedule(TWO, replace(schedule, visits=(*schedule.visits, again)))


def test_a_scheduler_that_is_not_there_is_told() -> None:
    with pytest.raises(JobError, match=r"no scheduler 'lst' .* expected 'list', .*did you mean 'list'"):
        make_scheduler("lst")


def test_a_missing_solver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    hard = grid([[1.0, 2.0, 7.0], [3.0, 1.0, 1.0], [7.0, 7.0, 3.0], [1.0, 3.0, 2.0]], replicas=2)
    with pytest.raises(JobError, match=r"elastune\[hopper\]"):
        solve(hard, SolverEffort(warm=False))


def test_models_move_as_many_bytes_as_the_paper_says() -> None:
    """Cerebro, Table 2: 20 configurations of 1 GB on 10 partitions for 20 epochs move 4 TB."""
    gigabyte = 10**9
    plain = grid([[1.0] * 10] * 20)
    epoch = replace(plain, hops=Hops(model_bytes=dict.fromkeys(plain.trials, gigabyte)))
    assert 20 * simulate(epoch, make_scheduler("list")).hop_bytes == 4_000 * gigabyte
