"""Quasi-random search."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastune.space.function_space import FunctionSpace, SuggestingTrial
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import QmcSampler, QuasiRandomSequence, RandomSampler
from elastune.space.space import Space
from tests.space.inside import assert_inside
from tests.space.spaces import conditional_spaces, spaces


@given(conditional_spaces() | spaces(), st.integers(0, 2**53 - 1), st.integers(0, 5000))
@settings(max_examples=30)
def test_points_are_inside_the_space(space: Space, seed: int, trial: int) -> None:
    assert_inside(space, QmcSampler(space, seed=seed).ask(trial) or {})


@pytest.mark.parametrize("sequence", ["sobol", "halton"])
def test_a_trial_has_its_own_point_whenever_it_is_asked_for(sequence: QuasiRandomSequence) -> None:
    space = parse_space({"x": {"float": [0, 1]}, "y": {"float": [0, 1]}})
    forwards, backwards = (QmcSampler(space, seed=3, sequence=sequence) for _ in range(2))
    asked = [forwards.ask(trial) for trial in range(600)]
    assert [backwards.ask(trial) for trial in reversed(range(600))] == asked[::-1]
    assert QmcSampler(space, seed=4, sequence=sequence).ask(5) != asked[5]


def test_the_points_are_spread_more_evenly_than_by_chance() -> None:
    space = parse_space({"x": {"int": [1, 16]}, "c": ["a", "b", "c", "d"]})
    sobol, random = QmcSampler(space, seed=0), RandomSampler(space, seed=0)
    even = Counter(str(sobol.ask(trial)) for trial in range(256))
    assert set(even.values()) == {4}
    assert max(Counter(str(random.ask(trial)) for trial in range(256)).values()) > 4


def test_a_function_gets_its_numbers_in_the_order_of_its_suggestions() -> None:
    def suggest(trial: SuggestingTrial) -> None:
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            trial.suggest_float("x", 0.0, 1.0)

    sampler = QmcSampler(FunctionSpace(function=suggest, name="suggest"), seed=0)
    asked = [sampler.ask(trial) or {} for trial in range(64)]
    assert Counter(config["kind"] for config in asked) == {"a": 32, "b": 32}
    assert all(("x" in config) == (config["kind"] == "a") for config in asked)


def test_a_space_of_constants_has_one_configuration() -> None:
    assert QmcSampler(parse_space({"epochs": 5}), seed=0).ask(9) == {"epochs": 5}
