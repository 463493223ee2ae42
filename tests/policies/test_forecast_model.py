"""Ranks at rungs, shares of the work, gains per doubling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.model.ids import TrialId
from elastune.policies.forecast.model import EFFICIENCY, Ladder, iterations_of_best, shares_of

A, B, C, D = map(TrialId, range(4))


def test_a_trial_is_compared_at_the_highest_rung_that_it_has_reached() -> None:
    ladder = Ladder(1)
    ladder.record(A, [0.5])
    ladder.record(B, [0.4, 0.3])
    ladder.record(C, [0.6, 0.2])
    assert ladder.better_than(A) == 1  # B, after one iteration
    assert ladder.better_than(B) == 1  # C, after two
    assert ladder.better_than(C) == 0
    assert ladder.better_than(D) == 3  # it has no value
    assert ladder.measured == 3


def test_values_between_rungs_do_not_count_and_rungs_double_from_the_first() -> None:
    ladder = Ladder(3)
    assert not ladder.record(A, [0.1, 0.1])
    assert ladder.record(A, [0.1, 0.1, 0.9, 0.1, 0.1])
    assert not ladder.record(A, [0.1, 0.1, 0.9, 0.1, 0.1])
    assert [(rung.iterations, rung.scores) for rung in ladder.rungs] == [(3, {A: 0.9})]
    assert [ladder.next_rung(done) for done in (0, 2, 3, 5, 6)] == [3, 3, 6, 6, 12]


def test_those_that_can_still_train_are_compared_among_themselves() -> None:
    ladder = Ladder(1)
    ladder.record(A, [0.1, 0.1])
    ladder.record(B, [0.2])
    ladder.record(C, [0.3])
    assert ladder.better_than(C) == 2
    ladder.close(A, failed=False)
    assert ladder.better_than(C) == 1
    ladder.close(B, failed=True)
    ladder.close(B, failed=True)
    assert ladder.better_than(C) == 0


def test_a_place_at_a_rung_is_kept_by_a_trained_trial_and_lost_by_a_failed_one() -> None:
    ladder = Ladder(1)
    for trial, score in ((A, 0.1), (B, 0.2), (C, 0.3)):
        ladder.record(trial, [score])
    ladder.close(A, failed=False)
    ladder.close(B, failed=True)
    assert [trial for _, trial in ladder.rungs[0].ranked] == [A, C]
    assert ladder.measured == 3


def test_a_trial_that_failed_before_its_first_value_is_not_compared() -> None:
    ladder = Ladder(1)
    ladder.close(A, failed=True)
    ladder.record(B, [0.4])
    assert ladder.better_than(B) == 0


@given(
    better=st.lists(st.integers(0, 50), min_size=1, max_size=30),
    done=st.integers(0, 40),
    work=st.floats(1.0, 2_000.0),
)
def test_the_shares_need_the_work_that_is_left_or_all_reach_the_goal(
    better: list[int], done: int, work: float
) -> None:
    goal = 100
    shares = shares_of(np.array(better), 1.5)
    best = iterations_of_best(shares, np.full(len(better), done), goal, work)
    deserved = [min(goal, best * share) for share in shares]
    needed = sum(max(0.0, each - done) for each in deserved) / EFFICIENCY
    assert needed == pytest.approx(work, rel=1e-3) or (
        needed < work and all(each == pytest.approx(goal) for each in deserved)
    )


def test_trials_with_the_same_value_share_their_places() -> None:
    shares = shares_of(np.array([3, 0, 1, 1, 3, 3]), 1.5)
    assert shares.tolist() == pytest.approx([each**-1.5 for each in (5, 1, 2.5, 2.5, 5, 5)])
    assert shares_of(np.zeros(9, dtype=int), 1.5).sum() < 1.0


def test_a_forecast_adds_the_median_gain_of_each_doubling_and_fades_beyond_what_was_seen() -> None:
    ladder = Ladder(1)
    for number, gain in enumerate((0.1, 0.2, 0.3)):
        ladder.record(TrialId(number), [1.0, 1.0 - gain])
    one = ladder.forecast(D, [0.8], 2)
    assert one.iterations == 2
    assert one.score == pytest.approx(0.6)
    assert one.spread == pytest.approx(0.1 * 1.4826)
    more = ladder.forecast(D, [0.8], 4)
    assert 0.6 - 0.2 < more.score < 0.6
    assert ladder.forecast(D, [0.8], 1).score == 0.8


def test_without_trials_that_went_further_no_gain_is_expected() -> None:
    ladder = Ladder(1)
    ladder.record(A, [0.5])
    told = ladder.forecast(A, [0.5], 64)
    assert (told.score, told.spread) == (0.5, 0.0)


def test_among_a_hundred_thousand_trials_the_best_deserve_what_is_left() -> None:
    """The last deserves 3e-13 of what the first does."""
    shares, goal, work = shares_of(np.arange(100_000), 2.5), 1280, 640.0
    best = iterations_of_best(shares, np.ones(100_000), goal, work)
    needed = np.maximum(np.minimum(best * shares, goal) - 1.0, 0.0).sum() / EFFICIENCY
    assert needed == pytest.approx(work, rel=0.02)
