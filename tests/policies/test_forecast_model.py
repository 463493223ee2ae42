"""Ranks at rungs, shares of the work, gains per doubling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.model.ids import TrialId
from elastune.policies.forecast.model import EFFICIENCY, Ladder, iterations_of_best, share_of

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


def test_the_best_value_of_a_trial_that_is_over_stands_at_higher_rungs_also_at_later_ones() -> None:
    ladder = Ladder(1)
    ladder.record(A, [0.3, 0.2])
    ladder.record(B, [0.1])
    ladder.close(B, [0.1])
    assert ladder.better_than(A) == 1
    ladder.record(A, [0.3, 0.2, 0.2, 0.05])
    assert ladder.better_than(A) == 0
    assert ladder.rungs[2].scores == {A: 0.05, B: 0.1}


def test_a_trial_that_failed_before_its_first_value_is_not_compared() -> None:
    ladder = Ladder(1)
    ladder.close(A, [])
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
    best = iterations_of_best(np.array(better), np.full(len(better), done), goal, work)
    deserved = [min(goal, best * share_of(each)) for each in better]
    needed = sum(max(0.0, each - done) for each in deserved) / EFFICIENCY
    assert needed == pytest.approx(work, rel=1e-3) or (
        needed < work and all(each == pytest.approx(goal) for each in deserved)
    )


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
