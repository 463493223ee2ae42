"""The state of an epoch follows its events and rejects impossible ones."""

from __future__ import annotations

import pytest

from elastune.errors import InvariantError
from elastune.hopping.epoch import (
    Epoch,
    Event,
    TrialDropped,
    UnitEnded,
    UnitFailed,
    UnitStarted,
    WorkerId,
    WorkerJoined,
    WorkerLost,
)
from elastune.hopping.epoch_state import EpochState
from elastune.model.ids import TrialId
from tests.hopping.epochs import grid, unit, worker

W0, W1 = WorkerId("w0"), WorkerId("w1")
TWO = grid([[1.0, 2.0], [3.0, 4.0]])


def state_after(*events: Event, epoch: Epoch = TWO) -> EpochState:
    state = EpochState(epoch)
    for event in events:
        state.handle(event)
    return state


def started(trial: int, partition: int, on: WorkerId, at_s: float = 0.0) -> UnitStarted:
    return UnitStarted(at_s=at_s, unit=unit(trial, partition), worker=on)


@pytest.mark.parametrize(
    "events",
    [
        [started(0, 0, W0), started(1, 0, W0)],
        [started(0, 0, W0), started(0, 1, W1)],
        [started(0, 1, W0)],
        [started(0, 0, W0), UnitEnded(at_s=1, worker=W0), started(0, 0, W0, 1)],
        [started(0, 0, WorkerId("nobody"))],
        [UnitEnded(at_s=1, worker=W0)],
        [WorkerLost(at_s=1, worker=W0), WorkerLost(at_s=2, worker=W0)],
        [WorkerJoined(at_s=1, worker=worker("w0", [0], {0: 1.0, 1: 1.0}))],
        [WorkerJoined(at_s=1, worker=worker("w2", [0], {0: 1.0}))],
    ],
    ids=[
        "two trials on a worker",
        "a trial in two places",
        "a partition that is not there",
        "a unit twice",
        "an unknown worker",
        "an end without a beginning",
        "a loss twice",
        "a worker twice",
        "a worker without times",
    ],
)
def test_what_must_not_happen_is_refused(events: list[Event]) -> None:
    with pytest.raises(InvariantError):
        state_after(*events)


@pytest.mark.parametrize("gone", [UnitFailed(at_s=1, worker=W0), WorkerLost(at_s=1, worker=W0)])
def test_a_unit_that_did_not_end_goes_back(gone: Event) -> None:
    state = state_after(started(0, 0, W0), gone)
    assert state.is_todo(unit(0, 0))
    assert state.can_start(unit(0, 1), W1)
    assert state.can_start(unit(0, 0), W0) == isinstance(gone, UnitFailed)


def test_a_unit_that_failed_fetches_its_model_again() -> None:
    state = state_after(started(0, 0, W0))
    assert not state.must_hop(TrialId(0), W0)
    state.handle(UnitFailed(at_s=1, worker=W0))
    assert state.must_hop(TrialId(0), W0)


def test_a_worker_that_is_back_may_hold_other_partitions() -> None:
    back = worker("w0", [1], {0: 9.0, 1: 9.0})
    state = state_after(WorkerLost(at_s=1, worker=W0), WorkerJoined(at_s=2, worker=back))
    assert state.can_start(unit(0, 1), W0)
    assert not state.can_start(unit(0, 0), W0)
    assert state.expected_s(unit(0, 1), W0) == 9.0


def test_a_dropped_trial_owes_nothing_and_frees_its_worker() -> None:
    state = state_after(started(0, 0, W0), TrialDropped(at_s=1, trial=TrialId(0)))
    assert state.can_start(unit(1, 0), W0)
    assert not state.is_todo(unit(0, 0))
    assert not state.is_todo(unit(0, 1))
    assert [each.trial for each in state.snapshot().units_left] == [1, 1]


def test_a_snapshot_is_the_rest_of_the_epoch() -> None:
    state = state_after(started(0, 0, W0), started(1, 1, W1), UnitEnded(at_s=1.0, worker=W0))
    rest = state.snapshot()
    assert rest.done == {unit(0, 0)}
    assert rest.units_left == (unit(0, 1), unit(1, 0))
    assert [(each.unit, each.worker, each.left_s) for each in rest.underway] == [(unit(1, 1), W1, 3.0)]
    assert EpochState(rest).snapshot() == rest


def test_the_epoch_is_over_when_all_is_done() -> None:
    one = grid([[1.0]])
    assert not state_after(started(0, 0, W0), epoch=one).is_over
    assert state_after(started(0, 0, W0), UnitEnded(at_s=1, worker=W0), epoch=one).is_over


def test_an_epoch_must_make_sense() -> None:
    with pytest.raises(InvariantError, match="unit time of trial 0 on worker w0 is 0"):
        grid([[0.0]])
    with pytest.raises(InvariantError, match="trial 0 is named twice"):
        Epoch(trials=(TrialId(0), TrialId(0)), partitions=(), workers=())
