"""Hyperparameters that are only there under a condition."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.model.configuration import Configuration
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import GridSampler, QmcSampler, RandomSampler
from elastune.space.space import Condition, Space, SpaceError
from tests.space.inside import assert_inside
from tests.space.spaces import conditional_spaces

SPACE = parse_space(
    {
        "nesterov": {"choice": [True, False], "when": {"momentum": [0.9, 0.99], "optimizer": "sgd"}},
        "optimizer": ["sgd", "adam", "lamb"],
        "momentum": {"choice": [0.0, 0.9, 0.99], "when": {"optimizer": "sgd"}},
        "beta": {"int": [1, 2], "when": {"optimizer": ["adam", "lamb"]}},
        "epochs": 5,
    }
)


def test_a_condition_is_a_value_or_a_list_of_values() -> None:
    assert SPACE.domains["momentum"].when == (Condition("optimizer", ("sgd",)),)
    assert SPACE.domains["beta"].when == (Condition("optimizer", ("adam", "lamb")),)
    assert [each.parent for each in SPACE.domains["nesterov"].when] == ["momentum", "optimizer"]


@given(conditional_spaces())
def test_a_conditional_space_survives_the_way_to_plain_data_and_back(space: Space) -> None:
    assert parse_space(json.loads(json.dumps(space.to_plain()))) == space


@given(conditional_spaces(), st.integers(0, 2**53 - 1), st.integers(0, 10**6))
def test_what_is_not_active_is_absent(space: Space, seed: int, trial: int) -> None:
    assert_inside(space, RandomSampler(space, seed=seed).ask(trial))


def test_quasi_random_configurations_honour_conditions() -> None:
    sampler = QmcSampler(SPACE, seed=2)
    for trial in range(50):
        assert_inside(SPACE, sampler.ask(trial) or {})


def test_what_comes_and_goes_does_not_change_what_the_others_draw() -> None:
    others = {name: entry for name, entry in SPACE.to_plain().items() if name != "nesterov"}
    more = parse_space(others | {"nesterov": SPACE.to_plain()["nesterov"]})
    for trial in range(20):
        config = dict(RandomSampler(more, seed=0).ask(trial))
        config.pop("nesterov", None)
        assert config == RandomSampler(parse_space(others), seed=0).ask(trial)


def test_a_grid_has_every_active_combination_once() -> None:
    sampler = GridSampler(SPACE)
    found = [sampler.ask(trial) for trial in range(sampler.size)]
    expected: set[str] = set()
    for nesterov, optimizer, momentum, beta in itertools.product(
        [True, False], ["sgd", "adam", "lamb"], [0.0, 0.9, 0.99], [1, 2]
    ):
        config: dict[str, object] = {"optimizer": optimizer, "epochs": 5}
        if optimizer == "sgd":
            config["momentum"] = momentum
            if momentum in (0.9, 0.99):
                config["nesterov"] = nesterov
        else:
            config["beta"] = beta
        expected.add(json.dumps(config, sort_keys=True))
    assert sorted(json.dumps(config, sort_keys=True) for config in found) == sorted(expected)
    assert sampler.ask(sampler.size) is None


@given(conditional_spaces(finite=True), st.integers(0, 10**9))
def test_points_of_a_conditional_grid_are_inside_and_know_their_place(space: Space, trial: int) -> None:
    sampler = GridSampler(space)
    config = sampler.ask(trial % sampler.size)
    assert config is not None
    assert_inside(space, config)
    assert sampler.position(config) == trial % sampler.size


@given(conditional_spaces(finite=True))
def test_a_small_conditional_grid_has_no_duplicates(space: Space) -> None:
    sampler = GridSampler(space)
    some = [json.dumps(sampler.ask(trial)) for trial in range(min(300, sampler.size))]
    assert len(set(some)) == len(some)


def test_a_grid_with_too_many_branches_says_so() -> None:
    space = parse_space({"n": {"int": [0, 10**6]}, "x": {"int": [0, 1], "when": {"n": 5}}})
    with pytest.raises(
        SpaceError, match="space has conditions on n, which have more than 100,000 points together"
    ):
        GridSampler(space)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"x": {"int": [0, 1], "when": {"y": 1}}},
         "space.x.when.y is no hyperparameter of this space; expected x"),
        ({"opt": ["a"], "x": {"int": [0, 1], "when": {"optt": "a"}}},
         "space.x.when.optt is no hyperparameter of this space; expected opt or x; did you mean 'opt'?"),
        ({"opt": ["a"], "x": {"int": [0, 1], "when": {"opt": "b"}}},
         "space.x.when.opt is 'b', which is impossible: opt is one of: a"),
        ({"n": {"int": [1, 3]}, "x": {"int": [0, 1], "when": {"n": [1, 4]}}},
         "space.x.when.n is 4, which is impossible: n is a whole number from 1 to 3"),
        ({"f": {"float": [0, 1]}, "x": {"int": [0, 1], "when": {"f": True}}},
         "space.x.when.f is True, which is impossible: f is a number from 0 to 1"),
        ({"k": 5, "x": {"int": [0, 1], "when": {"k": 6}}},
         "space.x.when.k is 6, which is impossible: k is always 5"),
        ({"x": {"int": [0, 1], "when": {"x": 1}}}, "space.x.when is circular: x on x"),
        ({"x": {"int": [0, 1], "when": {"y": 1}}, "y": {"int": [0, 1], "when": {"x": 1}}},
         "when is circular: "),
        ({"x": {"int": [0, 1], "when": "sgd"}},
         "space.x.when is 'sgd'; expected conditions by name, such as {optimizer: sgd}"),
        ({"x": {"int": [0, 1], "when": {}}}, "space.x.when is {}; expected conditions by name"),
        ({"y": ["a"], "x": {"int": [0, 1], "when": {"y": []}}},
         "space.x.when.y is []; expected a value, or a list of values"),
        ({"y": ["a"], "x": {"int": [0, 1], "when": {"y": [[1]]}}},
         "space.x.when.y is '[1]', which is impossible: y is one of: a"),
    ],
)  # fmt: skip
def test_a_condition_that_cannot_be_is_refused(written: object, message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        parse_space(written)
    assert message in str(caught.value)


def test_a_condition_on_a_constant_is_always_met() -> None:
    space = parse_space({"k": 5, "x": {"int": [0, 1], "when": {"k": 5}}})
    config: Configuration = RandomSampler(space, seed=0).ask(0)
    assert set(config) == {"k", "x"}
