"""Spaces as Ray Tune writes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.space.parsing import parse_space
from elastune.space.space import Space, SpaceError

MEANINGS: dict[str, object] = {
    "uniform(-1.0, 1)": {"float": [-1.0, 1.0]},
    "loguniform(1e-4, 1e-1)": {"float": [1e-4, 1e-1], "log": True},
    "loguniform(1e-4, 1e-1, 2)": {"float": [1e-4, 1e-1], "log": True},
    "quniform(0.05, 0.55, 0.1)": {"float": [0.1, 0.5], "step": 0.1},
    "randint(1, 9)": {"int": [1, 8]},
    "randint(-5, 5)": {"int": [-5, 4]},
    "lograndint(1, 1000)": {"int": [1, 999], "log": True},
    "qrandint(30, 256, 32)": {"int": [32, 256], "step": 32},
    "qrandint(1, 9, 1)": {"int": [1, 8]},
    "choice([32, 64])": {"choice": [32, 64]},
    "choice(['relu', None, True])": {"choice": ["relu", None, True]},
}


@pytest.mark.parametrize(("text", "meaning"), MEANINGS.items())
def test_text_means_what_it_means_in_ray(text: str, meaning: object) -> None:
    expected = parse_space({"x": meaning})
    for written in (text, f"tune.{text}", f" {text} "):
        assert parse_space({"x": written}) == expected


def test_arguments_may_be_named() -> None:
    assert parse_space({"x": "loguniform(lower=1e-4, upper=1, base=10)"}) == parse_space(
        {"x": {"float": [1e-4, 1.0], "log": True}}
    )
    assert parse_space({"x": "choice(categories=[1, 2])"}) == parse_space({"x": [1, 2]})
    assert parse_space({"x": {"grid_search": [1, 2]}}) == parse_space({"x": "grid_search([1, 2])"})


def test_other_text_stays_a_constant() -> None:
    for text in ("relu", "f(x)", "gelu()", "uniform", "a (b)", "(1, 2)"):
        assert parse_space({"x": text}) == Space({"x": text})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lguniform(1, 2)", "space.x is 'lguniform(1, 2)'; did you mean 'loguniform'?"),
        ("uniform(1)", "space.x is uniform with 1 numbers; expected 2"),
        ("uniform(a, b)", "space.x is 'uniform(a, b)'; expected plain numbers and lists, such as"),
        ("uniform(__import__('os').getpid(), 2)", "expected plain numbers and lists"),
        ("uniform(1, 2) + uniform(3)", "expected plain numbers and lists"),
        ("uniform(1, 2, size=3)", "space.x is 'uniform(1, 2, size=3)'; expected plain numbers and lists"),
        ("uniform('a', 2)", "space.x is uniform of ['a', 2]; expected numbers"),
        ("uniform(1e999, 2)", "expected numbers"),
        ("uniform(2, 1)", "space.x.float is [2, 1]; expected the smaller end first"),
        ("loguniform(0, 1)", "space.x.float starts at 0; with log: true it starts above 0"),
        ("randint(5, 5)", "space.x has no value from 5 to below 5"),
        ("quniform(0.1, 0.2, 0.5)", "space.x has no multiple of 0.5 from 0.1 to 0.2"),
        ("quniform(0.1, 0.2, 0)", "space.x has q = 0; expected a positive number"),
        ("choice(1)", "space.x.choice is 1; expected a list of values"),
        ("choice([1], [2])", "space.x is choice with 2 values; expected one list of values"),
        ("choice([1, b'2'])", "space.x.choice.1 is b'2'; expected text"),
        ("qloguniform(1, 10, 2)", "space.x is qloguniform of Ray Tune; a range is either logarithmic or in"),
        ("randn(0, 1)", "space.x is randn of Ray Tune; it has no ends"),
        ("sample_from(lambda spec: 1)", "space.x is sample_from of Ray Tune; other samplers cannot"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_call_is_named(text: str, message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        parse_space({"x": text})
    assert message in str(caught.value)


ARGUMENTS = st.text("0123456789.,-+e[]()'x= ", max_size=20)


@given(st.sampled_from(["uniform", "choice", "randint", "quniform", "lograndint", "qrandint"]), ARGUMENTS)
def test_any_call_is_a_space_or_a_space_error(name: str, arguments: str) -> None:
    found: Space | SpaceError
    try:
        found = parse_space({"x": f"{name}({arguments})"})
    except SpaceError as error:
        found = error
    assert isinstance(found, Space | SpaceError)


class Uniform: ...


class Quantized:
    def __init__(self, sampler: object, q: float) -> None:
        self.sampler, self.q = sampler, q


class Float:
    def __init__(self, lower: float, upper: float, sampler: object) -> None:
        self.lower, self.upper, self.sampler = lower, upper, sampler


def test_objects_are_known_by_their_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Float, "__module__", "ray.tune.search.sample")
    assert parse_space({"x": Float(0, 1, Uniform())}) == parse_space({"x": "uniform(0, 1)"})
    quantized = Quantized(Uniform(), 0.25)
    assert parse_space({"x": Float(0, 1, quantized)}) == parse_space({"x": "quniform(0, 1, 0.25)"})


def test_the_objects_of_ray_mean_the_same_as_text() -> None:
    tune: Any = pytest.importorskip("ray.tune", reason="Ray Tune is not installed", exc_type=ImportError)
    pairs = {
        "uniform(-1.0, 1.0)": tune.uniform(-1.0, 1.0),
        "loguniform(1e-4, 1e-1)": tune.loguniform(1e-4, 1e-1),
        "quniform(0.1, 0.5, 0.1)": tune.quniform(0.1, 0.5, 0.1),
        "randint(1, 9)": tune.randint(1, 9),
        "lograndint(1, 1000)": tune.lograndint(1, 1000),
        "qrandint(30, 256, 32)": tune.qrandint(30, 256, 32),
        "qrandint(1, 9, 1)": tune.qrandint(1, 9),
        "choice([32, 64])": tune.choice([32, 64]),
        "grid_search([1, 2])": tune.grid_search([1, 2]),
    }
    for text, written in pairs.items():
        assert parse_space({"x": written}) == parse_space({"x": text}), text
    refused = [tune.sample_from(lambda _: 1), tune.randn(0, 1), tune.qloguniform(2, 10, 2)]
    for written in [*refused, tune.qrandn(0, 1, 0.5), tune.qlograndint(1, 10, 2)]:
        with pytest.raises(SpaceError, match=r"space\.x is \w+ of Ray Tune; "):
            parse_space({"x": written})


def test_the_values_of_ray_lie_in_the_space() -> None:
    tune: Any = pytest.importorskip("ray.tune", reason="Ray Tune is not installed", exc_type=ImportError)
    for written in (tune.quniform(0.1, 0.5, 0.1), tune.randint(1, 4), tune.qrandint(30, 256, 32)):
        distribution = parse_space({"x": written}).distributions["x"]
        assert all(distribution._contains(written.sample()) for _ in range(200))
