"""List scheduling of many samples at once against a plain heap."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Array, Constant, Empirical, Normal
from elastune.model.profile import Profile, Speedup, TrialSpeed
from elastune.model.stages import Stage
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.evaluator import Evaluator, makespan
from elastune.planning.prediction.plan import Workload, allocate

ALONE = Speedup.of({})
CLUSTER = ClusterTerms(slots_per_node=1, max_nodes=8, price_per_hour=1.0)


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


def promised_s(workload: Workload, gangs: int) -> Array:
    evaluator = Evaluator(workload, Draws(workload, samples=64))
    return evaluator.makespan_s(0, allocate(gangs=gangs, slots_per_trial=1, slots_per_node=1))


def test_a_queue_of_thousands_of_turns_is_exact_if_nothing_is_random() -> None:
    """The trial that owes most work comes last: it begins when the others end."""
    owed = (*([1] * 3000), 3000)
    stage = Stage(trials=len(owed), iterations=3000, remaining=owed)
    workload = Workload(
        stages=(stage,), profile=Profile(iteration=Constant(10.0), speedup=ALONE), cluster=CLUSTER
    )
    assert promised_s(workload, 2).tolist() == [simple_makespan([10.0 * work for work in owed], 2)]


def test_a_slow_trial_at_the_end_of_a_long_queue_counts_in_full() -> None:
    speeds = (*([TrialSpeed(1.0, 0.0)] * 3000), TrialSpeed(600.0, 0.0))
    workload = Workload(
        stages=(Stage(trials=len(speeds), iterations=1),),
        profile=Profile(iteration=Normal(10.0, 0.01), speedup=ALONE, spread=1.0),
        cluster=CLUSTER,
        speeds=speeds,
    )
    expected = simple_makespan([10.0 * speed.factor for speed in speeds], 2)
    assert promised_s(workload, 2) == pytest.approx(expected, rel=0.01)


def test_even_trials_in_a_long_queue_take_as_long_as_in_a_simulated_one() -> None:
    stage = Stage(trials=3000, iterations=1)
    profile = Profile(iteration=Empirical((5.0, 10.0, 15.0)), speedup=ALONE)
    promised = promised_s(Workload(stages=(stage,), profile=profile, cluster=CLUSTER), 2)
    rng = np.random.default_rng(0)
    simulated = [simple_makespan(rng.choice((5.0, 10.0, 15.0), 3000).tolist(), 2) for _ in range(64)]
    assert promised.mean() == pytest.approx(np.mean(simulated), rel=0.002)
    assert np.quantile(promised, 0.95) == pytest.approx(np.quantile(simulated, 0.95), rel=0.005)
