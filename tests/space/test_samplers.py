"""What every sampler promises, and what each adds."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution

from elastune.model.configuration import Configuration
from elastune.space.given_configurations import TableSampler
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import GridSampler, RandomSampler
from elastune.space.sampler import Sampler
from elastune.space.space import Space, SpaceError
from tests.space.spaces import spaces

TRIALS = st.integers(0, 10**9)
ROWS: list[Configuration] = [{"lr": 0.1, "act": "relu"}, {"lr": 0.2, "act": "tanh"}, {"lr": 0.3, "act": None}]


def assert_inside(space: Space, config: Configuration) -> None:
    assert json.loads(json.dumps(config)) == config
    flat = space.flat(config)
    assert list(flat) == list(space.entries)
    assert {name: flat[name] for name in space.constants} == space.constants
    for name, distribution in space.distributions.items():
        value = flat[name]
        if isinstance(distribution, CategoricalDistribution):
            assert any(value == choice and type(value) is type(choice) for choice in distribution.choices)
        else:
            assert isinstance(value, int | float)
            assert type(value) is type(distribution.low)
            assert distribution._contains(value)


@given(spaces(), st.integers(0, 2**53 - 1), TRIALS)
def test_random_values_are_plain_and_inside_the_space(space: Space, seed: int, trial: int) -> None:
    assert_inside(space, RandomSampler(space, seed=seed).ask(trial))


@given(spaces(finite=True), TRIALS)
def test_points_of_a_grid_are_plain_and_inside_the_space(space: Space, trial: int) -> None:
    sampler = GridSampler(space)
    config = sampler.ask(trial % sampler.size)
    assert config is not None
    assert_inside(space, config)


SPACE = parse_space({"lr": {"float": [1e-4, 1.0], "log": True}, "n": {"int": [1, 5]}, "c": ["a", "b"]})


@pytest.mark.parametrize(
    "sampler",
    [
        RandomSampler(SPACE, seed=7),
        GridSampler(parse_space({"n": {"int": [1, 5]}, "c": ["a", "b"]})),
        TableSampler(ROWS, seed=7),
        TableSampler(ROWS, seed=7, replace=True),
    ],
)
def test_the_order_of_asks_does_not_matter(sampler: Sampler) -> None:
    forwards = {trial: sampler.ask(trial) for trial in range(12)}
    backwards = {trial: sampler.ask(trial) for trial in reversed(range(12))}
    assert forwards == backwards
    given_out = sum(config is not None for config in forwards.values())
    assert given_out == min(12, sampler.size or 12)


def test_random_configurations_follow_their_distributions() -> None:
    sampler = RandomSampler(SPACE, seed=0)
    drawn = [sampler.ask(trial) for trial in range(4000)]
    shares = Counter(config["n"] for config in drawn)
    assert all(abs(shares[n] / 4000 - 0.2) < 0.03 for n in range(1, 6))
    below = sum(math.log10(float(str(config["lr"]))) < -2 for config in drawn)
    assert abs(below / 4000 - 0.5) < 0.03


def test_another_seed_gives_other_configurations() -> None:
    assert RandomSampler(SPACE, seed=0).ask(3) != RandomSampler(SPACE, seed=1).ask(3)
    orders = {
        tuple(json.dumps(TableSampler(ROWS, seed=seed).ask(trial)) for trial in range(3))
        for seed in range(20)
    }
    assert len(orders) > 1


def test_a_grid_is_the_product_with_the_last_hyperparameter_fastest() -> None:
    space = parse_space(
        {"a": {"float": [0, 1], "grid": 3}, "k": 9, "b": {"float": [0.1, 0.35], "step": 0.1}, "c": ["x", "y"]}
    )
    sampler = GridSampler(space)
    expected = [
        {"a": a, "k": 9, "b": b, "c": c}
        for a, b, c in itertools.product([0.0, 0.5, 1.0], [0.1, 0.2, 0.3], ["x", "y"])
    ]
    assert [sampler.ask(trial) for trial in range(18)] == expected
    assert sampler.ask(18) is None
    assert sampler.size == 18


def test_a_logarithmic_grid_has_equal_ratios() -> None:
    sampler = GridSampler(parse_space({"lr": {"float": [1e-4, 1.0], "log": True, "grid": 5}}))
    points = [(sampler.ask(trial) or {})["lr"] for trial in range(5)]
    assert points == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1, 1.0])
    assert (points[0], points[-1]) == (1e-4, 1.0)


def test_a_huge_grid_costs_nothing_until_it_is_asked() -> None:
    sampler = GridSampler(parse_space({name: {"int": [0, 10**9]} for name in "abc"}))
    assert sampler.size == (10**9 + 1) ** 3
    assert sampler.ask(sampler.size - 1) == {"a": 10**9, "b": 10**9, "c": 10**9}


def test_a_grid_of_a_continuous_range_says_what_to_give() -> None:
    with pytest.raises(SpaceError, match=r"space\.lr is continuous .* \{float: \[0, 1\], grid: 5\}"):
        GridSampler(parse_space({"lr": {"float": [0, 1]}}))
    with pytest.raises(
        SpaceError, match=r"space\.lr\.step makes 10,000,001 points; a grid takes 1,000,000 at most"
    ):
        GridSampler(parse_space({"lr": {"float": [0, 1], "step": 1e-7}}))


def test_a_table_gives_every_row_once_and_then_none() -> None:
    sampler = TableSampler(ROWS, seed=3)
    given_out = [sampler.ask(trial) for trial in range(4)]
    assert given_out[3] is None
    assert sorted(map(json.dumps, given_out[:3])) == sorted(map(json.dumps, ROWS))


def test_a_table_with_replacement_never_ends_and_gives_every_row() -> None:
    sampler = TableSampler(ROWS, seed=3, replace=True)
    assert sampler.size is None
    rounds = [[json.dumps(sampler.ask(3 * number + place)) for place in range(3)] for number in range(20)]
    assert all(sorted(rows) == sorted(map(json.dumps, ROWS)) for rows in rounds)
    assert len(set(map(tuple, rounds))) > 1
    assert rounds[0] == [json.dumps(TableSampler(ROWS, seed=3).ask(trial)) for trial in range(3)]
