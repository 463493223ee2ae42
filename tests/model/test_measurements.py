"""The fit of a profile to measured latencies."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.errors import JobError
from elastune.model.distributions import Constant, LogNormal
from elastune.model.profile import fit_profile, pooled_variation

seconds = st.floats(min_value=1e-3, max_value=1e5)


def test_equal_latencies_fit_a_constant_and_the_ratio_of_means_is_the_speedup() -> None:
    profile = fit_profile({1: [60.0, 60.0], 2: [32.0], 4: [20.0, 20.0, 20.0]})
    assert profile.iteration == Constant(60.0)
    assert profile.speedup.points == ((1, 1.0), (2, 1.875), (4, 3.0))
    assert profile.is_deterministic


def test_values_that_are_equal_but_not_exact_in_binary_are_still_constant() -> None:
    assert isinstance(fit_profile({1: [0.1] * 3, 2: [0.7] * 7}).iteration, Constant)


def test_noise_is_pooled_over_the_allocations_by_number_of_values() -> None:
    # Coefficients of variation as samples: sqrt(2)/10 of two values, 0.3 of three.
    profile = fit_profile({1: [9.0, 11.0], 2: [3.5, 5.0, 6.5]})
    expected = math.sqrt((2 * 0.02 + 3 * 0.09) / 5)
    assert isinstance(profile.iteration, LogNormal)
    assert profile.iteration.mean == 10.0
    assert profile.iteration.sd == pytest.approx(10.0 * expected)


def test_a_single_value_says_nothing_about_noise() -> None:
    assert pooled_variation([[9.0, 11.0], [5.0]]) == pooled_variation([[9.0, 11.0]])
    assert pooled_variation([[5.0]]) == 0.0


def test_the_other_latencies_are_fitted_likewise() -> None:
    profile = fit_profile({1: [1.0]}, startup=[4.0, 6.0], save=[2.0, 2.0], spread=0.1)
    assert isinstance(profile.startup, LogNormal)
    assert (profile.startup.mean, profile.startup.sd) == pytest.approx((5.0, math.sqrt(2.0)))
    assert profile.save == Constant(2.0)
    assert profile.sync == Constant(0.0)
    assert profile.spread == 0.1


def test_without_one_slot_the_speedup_is_linear_up_to_the_smallest_measured_size() -> None:
    profile = fit_profile({2: [30.0, 30.0], 4: [20.0]})
    assert profile.iteration == Constant(60.0)
    assert profile.speedup.points == ((1, 1.0), (2, 2.0), (4, 3.0))
    for slots, measured in ((2, 30.0), (4, 20.0)):
        assert profile.iteration.mean / profile.speedup.at(slots) == pytest.approx(measured)


@given(st.dictionaries(st.integers(1, 64), st.lists(seconds, min_size=1, max_size=4), min_size=1, max_size=5))
def test_whatever_was_measured_the_mean_at_each_size_comes_out_again(
    measured: dict[int, list[float]],
) -> None:
    profile = fit_profile(measured)
    for slots, latencies in measured.items():
        mean = sum(latencies) / len(latencies)
        assert profile.iteration.mean / profile.speedup.at(slots) == pytest.approx(mean)


@pytest.mark.parametrize(
    ("iteration", "message"),
    [
        ({}, "no iterations were measured; expected latencies on at least one number of slots"),
        ({1: []}, "iterations on 1 slot: the list is empty"),
        ({1: [1.0], 2: [0.5, 0.0]}, "iterations on 2 slots: value 2 is 0; expected seconds, more than 0"),
        ({1: [-1.0]}, "iterations on 1 slot: value 1 is -1"),
        ({1: [math.nan]}, "iterations on 1 slot: value 1 is nan"),
        ({1: [math.inf]}, "iterations on 1 slot: value 1 is inf"),
        ({0: [1.0]}, "measured on 0 slots; expected 1 or more"),
    ],
)
def test_what_cannot_have_been_measured_is_refused(iteration: dict[int, list[float]], message: str) -> None:
    with pytest.raises(JobError) as caught:
        fit_profile(iteration)
    assert message in str(caught.value)


def test_a_negative_startup_is_refused() -> None:
    with pytest.raises(JobError, match="startup: value 2 is -1; expected seconds, 0 or more"):
        fit_profile({1: [1.0]}, startup=[0.0, -1.0])


@given(st.dictionaries(st.integers(2, 64), st.lists(seconds, min_size=1)), st.lists(seconds, min_size=1))
def test_every_measured_mean_is_found_again(rest: dict[int, list[float]], base: list[float]) -> None:
    profile = fit_profile({1: base, **rest})
    for slots, latencies in {1: base, **rest}.items():
        mean = math.fsum(latencies) / len(latencies)
        assert profile.iteration.mean / profile.speedup.at(slots) == pytest.approx(mean)
