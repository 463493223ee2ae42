"""Spaces that are functions of a trial."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from elastune.errors import JobError
from elastune.space.function_space import FunctionSpace, SuggestingTrial
from elastune.space.plain_samplers import GridSampler, RandomSampler
from elastune.space.space import SpaceError


def suggest(trial: SuggestingTrial) -> dict[str, object]:
    lr = trial.suggest_float("lr", 1e-4, 1.0, log=True)
    layers = trial.suggest_int("layers", 1, 3)
    for layer in range(layers):
        trial.suggest_int(f"width_{layer}", 16, 64, step=16)
    dropout = trial.suggest_float("dropout", 0.0, 0.5, step=0.1)
    assert trial.params["dropout"] == dropout
    assert trial.suggest_float("lr", 1e-4, 1.0, log=True) == lr
    assert set(trial.distributions) == set(trial.params)
    return {"epochs": 5, "lr": lr, "activation": trial.suggest_categorical("activation", ["relu", None])}


def of(function: Callable[..., object]) -> FunctionSpace:
    return FunctionSpace(function=function, name="mine.py:suggest")


def test_a_function_suggests_one_value_after_the_other() -> None:
    sampler = RandomSampler(of(suggest), seed=0)
    configs = [sampler.ask(trial) for trial in range(30)]
    assert configs == [RandomSampler(of(suggest), seed=0).ask(trial) for trial in range(30)]
    for config in configs:
        layers = config["layers"]
        assert isinstance(layers, int)
        widths = [f"width_{layer}" for layer in range(layers)]
        assert list(config) == ["lr", "layers", *widths, "dropout", "activation", "epochs"]
        assert all(config[width] in (16, 32, 48, 64) for width in widths)
        assert config["dropout"] in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert {config["layers"] for config in configs} == {1, 2, 3}


def fails(trial: SuggestingTrial) -> None:
    raise ZeroDivisionError("division by zero")


def asks_for_something_else(trial: SuggestingTrial) -> None:
    trial.suggest_loguniform("x", 1, 2)  # type: ignore[attr-defined]


def changes_its_mind(trial: SuggestingTrial) -> None:
    trial.suggest_float("x", 0.0, 1.0)
    trial.suggest_float("x", 0.0, 2.0)


def is_endless(trial: SuggestingTrial) -> None:
    for number in range(2000):
        trial.suggest_float(f"x{number}", 0.0, 1.0)


def has_no_arguments() -> None:
    pass


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fails, "space: mine.py:suggest failed with ZeroDivisionError: division by zero; expected a fu"),
        (asks_for_something_else, "failed with AttributeError: 'SuggestingTrial' object has no attribute"),
        (changes_its_mind, "space.x is suggested twice, from different ranges; expected one range"),
        (is_endless, "space.x1000 is one too many; a function suggests 1,000 at most"),
        (has_no_arguments, "failed with TypeError: has_no_arguments() takes 0 positional arguments"),
        (lambda trial: 5, "space: mine.py:suggest returned 5; expected nothing, or constants by name"),
        (lambda trial: {"x": [len]}, "space.x.0 is <built-in function len>; expected text, finite numbers"),
        (lambda trial: trial.suggest_float("x", 2.0, 1.0), "space.x.float is [2.0, 1.0]; expected the small"),
        (lambda trial: trial.suggest_int("x", 1, 9, step=0), "space.x.step is 0; expected 1 or more"),
        (lambda trial: trial.suggest_categorical("x", []), "space.x.choice is []; expected a list of values"),
    ],
)  # fmt: skip
def test_a_function_that_does_something_else_is_an_error(
    function: Callable[..., object], message: str
) -> None:
    with pytest.raises(JobError) as caught:
        RandomSampler(of(function), seed=0).ask(0)
    assert message in str(caught.value)


def test_a_grid_cannot_be_made_of_a_function() -> None:
    with pytest.raises(
        SpaceError, match=r"space is the function mine\.py:suggest, and a grid needs points that"
    ):
        GridSampler(of(suggest))
