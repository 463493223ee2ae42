"""Start configurations."""

from __future__ import annotations

import pytest

from elastune.model.configuration import Configuration
from elastune.space.function_space import FunctionSpace, SuggestingTrial
from elastune.space.given_configurations import StartError, StartingSampler, TableSampler, check_starts
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import GridSampler, RandomSampler

SPACE = parse_space(
    {
        "lr": {"float": [1e-4, 1.0], "log": True},
        "n": {"int": [1, 9], "step": 2},
        "d": {"float": [0.0, 0.5], "step": 0.1},
        "optimizer": ["adam", "sgd", True],
        "momentum": {"float": [0.8, 0.99], "when": {"optimizer": "sgd"}},
        "nesterov": {"choice": [True, False], "when": {"momentum": [0.9]}},
        "epochs": 5,
    }
)


def test_the_first_trials_get_them_and_the_others_what_they_would_get_anyway() -> None:
    sampler = StartingSampler(
        RandomSampler(SPACE, seed=1), [{"lr": 0.1}, {"n": 3.0, "d": 0.30000000000000004}]
    )
    random = RandomSampler(SPACE, seed=1)
    first, second = sampler.ask(0), sampler.ask(1)
    assert first == {**random.ask(0), "lr": 0.1}
    assert second is not None
    assert (second["n"], type(second["n"]), second["d"]) == (3, int, 0.3)
    assert sampler.ask(2) == random.ask(2)
    assert sampler.size is None
    assert not sampler.learns


def test_a_value_that_needs_another_brings_it() -> None:
    for seed in range(10):
        sampler = StartingSampler(RandomSampler(SPACE, seed=seed), [{"nesterov": True}])
        config = sampler.ask(0)
        assert config is not None
        assert (config["optimizer"], config["momentum"], config["nesterov"]) == ("sgd", 0.9, True)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"lr": 2.0}, "start_configurations.0.lr is 2.0; expected a number from 0.0001 to 1"),
        ({"lr": "x"}, "start_configurations.0.lr is 'x'; expected a number"),
        ({"lr": True}, "start_configurations.0.lr is True; expected a number"),
        ({"n": 4}, "start_configurations.0.n is 4; expected a whole number from 1 to 9 in steps of 2"),
        ({"n": 2.5}, "start_configurations.0.n is 2.5; expected a whole number"),
        ({"d": 0.15}, "start_configurations.0.d is 0.15; expected a number from 0 to 0.5 in steps of 0.1"),
        ({"optimizer": "lamb"}, "start_configurations.0.optimizer is 'lamb'; expected one of: adam, sgd"),
        ({"optimizer": 1}, "start_configurations.0.optimizer is 1; expected one of: adam, sgd, True"),
        ({"lrr": 1.0}, "start_configurations.0.lrr is no hyperparameter of this configuration; expected"),
        ({"lrr": 1.0}, "did you mean 'lr'?"),
        ({"epochs": 6}, "start_configurations.0.epochs is 6; expected 5, a constant"),
        ({"optimizer": "adam", "momentum": 0.9},
         "start_configurations.0.momentum is given, but is only there when optimizer is sgd"),
    ],
)  # fmt: skip
def test_what_is_not_of_the_space_is_refused_with_its_place(start: Configuration, message: str) -> None:
    for attempt in (
        lambda: check_starts(SPACE, [start]),
        lambda: StartingSampler(RandomSampler(SPACE, seed=0), [start]),
    ):
        with pytest.raises(StartError) as caught:
            attempt()
        assert message in str(caught.value)
    with pytest.raises(StartError, match=r"^start_configurations\.1\."):
        check_starts(SPACE, [{"epochs": 5}, start])


def test_a_grid_goes_on_without_the_points_that_came_first() -> None:
    space = parse_space({"a": {"int": [1, 3]}, "b": ["x", "y"], "c": {"float": [0, 1], "grid": 2}})
    starts: list[Configuration] = [{"a": 2, "b": "y", "c": 1.0}, {"a": 1, "b": "x", "c": 0.25}, {"a": 3}]
    sampler = StartingSampler(GridSampler(space), starts)
    assert sampler.size == 3 + 12 - 2
    given = [sampler.ask(trial) for trial in range(13)]
    assert given[:2] == starts[:2]
    assert len({str(config) for config in given}) == 13
    assert sampler.ask(13) is None


ROWS: list[Configuration] = [{"lr": lr, "act": act} for lr in (0.1, 0.2, 0.3) for act in ("relu", None, True)]


def test_a_start_in_a_table_is_one_of_its_rows() -> None:
    sampler = StartingSampler(TableSampler(ROWS, seed=2), [{"lr": 0.2, "act": None}, {"act": "relu"}])
    given = [sampler.ask(trial) for trial in range(9)]
    assert given[0] == {"lr": 0.2, "act": None}
    assert given[1] is not None
    assert given[1]["act"] == "relu"
    assert sorted(map(str, given)) == sorted(map(str, ROWS))
    assert sampler.ask(9) is None
    endless = StartingSampler(TableSampler(ROWS, seed=2, replace=True), [{"lr": 0.2, "act": None}])
    assert endless.ask(0) == given[0]
    assert endless.size is None


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"lr": 0.25}, "start_configurations.0 is {'lr': 0.25}, which is none of the 9 rows"),
        ({"act": 1}, "start_configurations.0 is {'act': 1}, which is none of the 9 rows"),
        ({"rl": 0.1}, "start_configurations.0.rl is no column of the table; expected lr, act"),
    ],
)
def test_the_nearest_row_is_not_silently_taken(start: Configuration, message: str) -> None:
    with pytest.raises(StartError) as caught:
        StartingSampler(TableSampler(ROWS, seed=0), [start])
    assert message in str(caught.value)


def test_a_start_of_a_function_is_checked_by_calling_it() -> None:
    def suggest(trial: SuggestingTrial) -> None:
        if trial.suggest_categorical("optimizer", ["sgd", "adam"]) == "sgd":
            trial.suggest_float("momentum", 0.8, 0.99)

    space = FunctionSpace(function=suggest, name="suggest")
    starts: list[Configuration] = [{"optimizer": "sgd", "momentum": 0.9}]
    assert StartingSampler(RandomSampler(space, seed=0), starts).ask(0) == starts[0]
    with pytest.raises(
        StartError, match=r"start_configurations\.0\.momentum is no hyperparameter of this conf"
    ):
        StartingSampler(RandomSampler(space, seed=0), [{"optimizer": "adam", "momentum": 0.9}])
