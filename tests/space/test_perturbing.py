"""Configurations near another one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.space.function_space import FunctionSpace, SuggestingTrial
from elastune.space.given_configurations import TableSampler
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import RandomSampler
from elastune.space.sampler import perturbed
from elastune.space.space import Space
from tests.space.inside import assert_inside
from tests.space.spaces import conditional_spaces, spaces

SEEDS = st.tuples(st.integers(0, 2**53 - 1), st.integers(0, 10**6))


@given(conditional_spaces() | spaces(), SEEDS)
def test_a_fork_is_always_inside_the_space_and_always_the_same(space: Space, seed: tuple[int, int]) -> None:
    parent = RandomSampler(space, seed=seed[0]).ask(seed[1])
    child = perturbed(space, parent, seed)
    assert_inside(space, child)
    assert perturbed(space, parent, seed) == child


def test_a_number_is_multiplied_and_one_in_four_is_drawn_anew() -> None:
    space = parse_space({"lr": {"float": [1e-6, 1.0], "log": True}})
    values = [perturbed(space, {"lr": 0.01}, (0, trial))["lr"] for trial in range(2000)]
    counts = Counter(values)
    assert abs(counts[0.008] / 2000 - 0.375) < 0.05
    assert abs(counts[0.012] / 2000 - 0.375) < 0.05
    assert abs(sum(count for count in counts.values() if count == 1) / 2000 - 0.25) < 0.05


@pytest.mark.parametrize(
    ("written", "before", "after"),
    [
        ({"int": [1, 10]}, 1, {1, 2}),
        ({"int": [1, 10]}, 10, {8, 10}),
        ({"int": [1, 1000], "log": True}, 2, {1, 3}),
        ({"int": [32, 256], "step": 32}, 64, {32, 96}),
        ({"float": [0.0, 0.5], "step": 0.1}, 0.3, {0.2, 0.4}),
        ({"float": [0.0, 1.0]}, 0.9, {0.9 * 0.8, 1.0}),
        ({"float": [-1.0, 1.0]}, -0.5, {-0.4, -0.6}),
        ({"int": [-9, 9]}, -1, {-2, 0}),
    ],
)
def test_a_number_moves_by_the_rules_of_its_domain(
    written: dict[str, object], before: float, after: set[float]
) -> None:
    space = parse_space({"x": written})
    counts = Counter(perturbed(space, {"x": before}, (1, trial))["x"] for trial in range(400))
    assert {value for value, count in counts.items() if count >= 100} == after


def test_a_choice_stays_or_one_time_in_four_is_drawn_anew() -> None:
    space = parse_space({"c": ["a", "b", "c", "d"]})
    counts = Counter(perturbed(space, {"c": "a"}, (0, trial))["c"] for trial in range(1000))
    assert 770 < counts["a"] < 850
    assert all(30 < counts[choice] < 100 for choice in "bcd")


def test_what_the_parent_does_not_have_or_has_from_elsewhere_is_drawn() -> None:
    space = parse_space({"lr": {"float": [0.0, 1.0]}, "n": {"int": [1, 3]}})
    assert_inside(space, perturbed(space, {}, (0, 0)))
    assert_inside(space, perturbed(space, {"lr": 7.0, "n": "x", "other": 1}, (0, 0)))


def test_a_function_that_suggests_can_be_forked() -> None:
    def suggest(trial: SuggestingTrial) -> None:
        if trial.suggest_categorical("optimizer", ["sgd", "adam"]) == "sgd":
            trial.suggest_float("momentum", 0.8, 0.99)

    space = FunctionSpace(function=suggest, name="suggest")
    children = [perturbed(space, {"optimizer": "sgd", "momentum": 0.9}, (0, trial)) for trial in range(50)]
    assert {("momentum" in child, child["optimizer"]) for child in children} == {
        (True, "sgd"),
        (False, "adam"),
    }


def test_a_fork_in_a_table_is_a_row_near_the_parent() -> None:
    rows = [{"lr": 10.0**-power, "act": act} for power in range(40) for act in ("relu", "tanh")]
    sampler = TableSampler(rows, seed=0)
    parent = rows[40]
    forks = [sampler.fork(trial, parent) for trial in range(200)]
    assert all(fork in rows and fork != parent for fork in forks)
    near = [fork for fork in forks if fork["act"] == "relu" and fork in rows[30:51]]
    assert len(near) > 120
    assert [sampler.fork(trial, parent) for trial in range(200)] == forks
    assert sampler.fork(0, {"lr": 0.7, "act": "relu"}) in rows
    assert TableSampler(rows[:1], seed=0).fork(0, rows[0]) == rows[0]
