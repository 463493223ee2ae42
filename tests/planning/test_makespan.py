"""List scheduling of many samples at once against a plain heap."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.planning.prediction.evaluator import makespan


def simple_makespan(durations: list[float], gangs: int) -> float:
    free = [0.0] * gangs
    for seconds in durations:
        heapq.heappush(free, heapq.heappop(free) + seconds)
    return max(free)


@given(
    trials=st.integers(1, 30),
    gangs=st.integers(1, 12),
    rows=st.integers(1, 5),
    noise=st.sampled_from([0.0, 0.1, 1.0, 3.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_it_is_what_a_queue_would_do(trials: int, gangs: int, rows: int, noise: float, seed: int) -> None:
    durations = np.random.default_rng(seed).lognormal(0.0, noise, (rows, trials))
    expected = [simple_makespan(row.tolist(), gangs) for row in durations]
    assert makespan(durations, gangs) == pytest.approx(expected)


def test_trials_that_take_no_time_do_not_hang_the_queue() -> None:
    durations = np.array([[0.0, 0.0, 5.0, 0.0, 0.0, 1.0, 0.0]])
    assert makespan(durations, 2).tolist() == [5.0]
