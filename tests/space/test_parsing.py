"""How a space is written, and what is said when it is written wrong."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.space.parsing import parse_space
from elastune.space.space import Domain, Space, SpaceError
from tests.space.spaces import spaces


def test_every_form_becomes_its_distribution() -> None:
    space = parse_space(
        {
            "lr": {"float": [1e-4, 1.0], "log": True},
            "dropout": {"float": [0, 0.55], "step": 0.1},
            "decay": {"float": [0, 1], "grid": 5},
            "layers": {"int": [1, 8], "step": 2},
            "width": {"int": [16, 64], "log": True},
            "momentum": {"choice": [0.9, 0.95]},
            "activation": ["relu", None],
            "epochs": 5,
        }
    )
    assert space.domains == {
        "lr": Domain(distribution=FloatDistribution(1e-4, 1.0, log=True)),
        "dropout": Domain(distribution=FloatDistribution(0.0, 0.5, step=0.1)),
        "decay": Domain(distribution=FloatDistribution(0.0, 1.0), grid=5),
        "layers": Domain(distribution=IntDistribution(1, 7, step=2)),
        "width": Domain(distribution=IntDistribution(16, 64, log=True)),
        "momentum": Domain(distribution=CategoricalDistribution((0.9, 0.95))),
        "activation": Domain(distribution=CategoricalDistribution(("relu", None))),
    }
    assert space.constants == {"epochs": 5}
    assert list(space.distributions) == list(space.domains)


def test_a_distribution_of_optuna_is_taken_as_it_is() -> None:
    distribution = IntDistribution(1, 3)
    assert parse_space({"n": distribution}).distributions == {"n": distribution}


@given(spaces())
def test_a_space_survives_the_way_to_plain_data_and_back(space: Space) -> None:
    assert parse_space(space) is space
    assert parse_space(json.loads(json.dumps(space.to_plain()))) == space
    assert pickle.loads(pickle.dumps(space)) == space


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (5, "space is 5; expected hyperparameters by name, such as {lr: {float: [1e-4, 1.0], log: true}}"),
        ({}, "space is {}; expected hyperparameters by name"),
        ({"lr": None}, "space.lr is empty; expected {float: [1e-4, 1.0], log: true}"),
        ({"lr": {}}, "space.lr is {}; expected one of float, int and choice"),
        ({"lr": {"flaot": [0, 1]}}, "expected one of float, int and choice; did you mean 'float'?"),
        ({"lr": {"float": [0, 1], "int": [0, 1]}}, "expected one of float, int and choice"),
        ({"lr": {"float": [0, 1], "lg": True}}, "space.lr.lg is not an option of float; expected log, step"),
        (
            {"n": {"int": [1, 8], "grid": 3}},
            "space.n.grid is not an option of int; expected log, step or when",
        ),
        (
            {"n": {"choice": [1], "log": True}},
            "space.n.log is not an option of choice; expected when",
        ),
        ({"lr": {"float": 1}}, "space.lr.float is 1; expected the two ends of a range, such as [1, 8]"),
        ({"lr": {"float": [1]}}, "space.lr.float is [1]; expected the two ends"),
        ({"lr": {"float": [2, 1]}}, "space.lr.float is [2, 1]; expected the smaller end first"),
        ({"lr": {"float": [0, "x"]}}, "space.lr.float is 'x'; expected a number, such as 0.001"),
        ({"lr": {"float": [0, True]}}, "space.lr.float is True; expected a number"),
        ({"lr": {"float": [0, float("inf")]}}, "space.lr.float is inf; expected a number"),
        ({"lr": {"float": [0, 10**400]}}, "expected a number, such as 0.001"),
        (
            {"lr": {"float": [0, 1], "log": True}},
            "space.lr.float starts at 0; with log: true it starts above 0",
        ),
        ({"lr": {"float": [1, 2], "log": 1}}, "space.lr.log is 1; expected true or false"),
        ({"lr": {"float": [1, 2], "step": 0}}, "space.lr.step is 0; expected a positive number"),
        ({"lr": {"float": [1, 2], "step": 1, "log": True}}, "space.lr.step is 1; log and step exclude each"),
        ({"lr": {"float": [1, 2], "grid": 1}}, "space.lr.grid is 1; expected a whole number from 2"),
        (
            {"lr": {"float": [1, 2], "grid": 3, "step": 1}},
            "space.lr.grid is 3; step already sets the points",
        ),
        ({"n": {"int": [0.5, 2]}}, "space.n.int is 0.5; expected a whole number"),
        ({"n": {"int": [0, 2], "log": True}}, "space.n.int starts at 0; with log: true it starts at 1"),
        ({"n": {"int": [1, 9], "step": 0}}, "space.n.step is 0; expected 1 or more"),
        (
            {"n": {"int": [1, 9], "step": 2, "log": True}},
            "space.n.step is 2; log and step exclude each other",
        ),
        ({"n": []}, "space.n is []; expected a list of values, such as [0.9, 0.95, 0.99]"),
        ({"n": {"choice": 3}}, "space.n.choice is 3; expected a list of values"),
        ({"n": [1, len]}, "space.n.1 is <built-in function len>; expected text, a finite number, true or"),
        ({"n": [1, True]}, "space.n.1 is True, which equals the choice 1"),
        ({"n": float("nan")}, "space.n is nan; expected text, a finite number, true or false"),
        ({"n": b"x"}, "space.n is b'x'; expected text"),
    ],
)
def test_a_mistake_is_named_with_its_place(written: object, message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        parse_space(written)
    assert message in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


KEYS = st.sampled_from(["float", "int", "choice", "log", "step", "grid", "x"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=2)
)
GARBAGE = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | SCALARS, inner, max_size=3),
    max_leaves=20,
)


@given(GARBAGE)
def test_garbage_is_a_space_or_a_space_error(written: object) -> None:
    found: Space | SpaceError
    try:
        found = parse_space({"x": written})
    except SpaceError as error:
        found = error
    assert isinstance(found, Space | SpaceError)
