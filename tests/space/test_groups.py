"""Groups of hyperparameters, and choices that are lists or mappings."""

from __future__ import annotations

import itertools
import json
import pickle

import pytest

from elastune.model.configuration import Configuration
from elastune.model.metric import Mode
from elastune.space.function_space import FunctionSpace, SuggestingTrial
from elastune.space.given_configurations import StartingSampler
from elastune.space.model_sampler import ModelSampler
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import GridSampler, QmcSampler, RandomSampler
from elastune.space.profiling_sample import space_filling
from elastune.space.sampler import AnySpace, Sampler
from elastune.space.space import SpaceError
from tests.space.inside import assert_inside

SPACE = parse_space(
    {
        "optimizer": {
            "name": ["sgd", "adam"],
            "lr": {"float": [1e-4, 1.0], "log": True, "grid": 3},
            "momentum": {"choice": [0.8, 0.9], "when": {"name": "sgd"}},
            "schedule": {"warmup": {"int": [0, 2]}, "kind": "cosine"},
        },
        "hidden": {"choice": [[64, 64], [128], None]},
        "augment": [{"flip": True}, {"flip": False, "crop": 4}],
        "dropout": {"float": [0.0, 0.5], "grid": 2, "when": {"optimizer.name": "adam", "hidden": [[64, 64]]}},
    }
)


def suggest(trial: SuggestingTrial) -> dict[str, object]:
    hidden = trial.suggest_categorical("hidden", [[64, 64], [128], None])
    if hidden == [128]:
        trial.suggest_float("x", 0.0, 1.0)
    trial.suggest_int("n", 1, 5)
    return {"betas": [0.9, 0.999], "extra": {"deep": [1]}}


def samplers(space: AnySpace) -> list[Sampler]:
    return [
        RandomSampler(space, seed=1),
        QmcSampler(space, seed=1),
        ModelSampler(space, seed=1, mode=Mode.MAX, startup=4),
        StartingSampler(ModelSampler(space, seed=1, mode=Mode.MAX, startup=4), [{"hidden": [128]}]),
    ]


def asked(sampler: Sampler, trials: int = 30) -> list[Configuration]:
    """Each trial is told that lists of two are better."""
    found: list[Configuration] = []
    for trial in range(trials):
        config = sampler.ask(trial)
        assert config is not None
        found.append(config)
        sampler.tell(trial, 1, float(config["hidden"] == [64, 64]))
    return found


@pytest.mark.parametrize("number", range(4))
def test_every_sampler_gives_nested_configurations(number: int) -> None:
    for config in asked(samplers(SPACE)[number]):
        assert_inside(SPACE, config)
        optimizer = config["optimizer"]
        assert isinstance(optimizer, dict)
        assert optimizer["schedule"]["kind"] == "cosine"
        assert ("momentum" in optimizer) == (optimizer["name"] == "sgd")
        assert config["hidden"] in ([64, 64], [128], None)
        assert ("dropout" in config) == (optimizer["name"] == "adam" and config["hidden"] == [64, 64])


@pytest.mark.parametrize("number", range(4))
def test_a_resumed_sampler_takes_recorded_configurations_back(number: int) -> None:
    sampler, resumed = samplers(SPACE)[number], samplers(SPACE)[number]
    for trial, config in enumerate(asked(sampler)):
        recorded = json.loads(json.dumps(config, sort_keys=True))
        assert resumed.complete(trial, recorded) == config
        resumed.tell(trial, 1, float(config["hidden"] == [64, 64]))
    assert resumed.ask(30) == sampler.ask(30)


def test_a_model_learns_which_list_is_best() -> None:
    later = asked(ModelSampler(SPACE, seed=1, mode=Mode.MAX, startup=4), 60)[30:]
    assert sum(config["hidden"] == [64, 64] for config in later) > len(later) / 2


@pytest.mark.parametrize("number", range(4))
def test_a_function_may_suggest_lists_and_return_them(number: int) -> None:
    space = FunctionSpace(function=suggest, name="mine.py:suggest")
    sampler, resumed = samplers(space)[number], samplers(space)[number]
    for trial, config in enumerate(asked(sampler)):
        assert config["betas"] == [0.9, 0.999]
        assert ("x" in config) == (config["hidden"] == [128])
        assert resumed.complete(trial, json.loads(json.dumps(config))) == config


def test_a_grid_has_each_combination_once_and_finds_its_points() -> None:
    grid = GridSampler(SPACE)
    every = [grid.ask(trial) or {} for trial in range(grid.size)]
    assert len({json.dumps(config, sort_keys=True) for config in every}) == grid.size
    # sgd has two values of momentum; adam with [64, 64] has two of dropout.
    assert grid.size == 3 * 3 * 2 * (3 * 2 + 2 + 2)
    for trial, config in itertools.islice(enumerate(every), 0, None, 17):
        assert_inside(SPACE, config)
        assert grid.position(json.loads(json.dumps(config))) == trial
    after = StartingSampler(GridSampler(SPACE), [every[7]])
    assert after.ask(0) == every[7]
    assert after.size == grid.size


def test_a_fork_stays_inside_and_keeps_its_parent_unchanged() -> None:
    sampler = RandomSampler(SPACE, seed=3)
    parent = sampler.ask(0)
    before = json.dumps(parent)
    forks = [sampler.fork(trial, parent) for trial in range(1, 30)]
    for fork in forks:
        assert_inside(SPACE, fork)
    assert json.dumps(parent) == before
    assert len({json.dumps(fork["hidden"]) for fork in forks}) > 1


def test_a_training_that_changes_its_configuration_changes_no_other() -> None:
    sampler = RandomSampler(parse_space({"hidden": {"choice": [[64]]}}), seed=0)
    hidden = sampler.ask(0)["hidden"]
    assert isinstance(hidden, list)
    hidden.append(1)
    assert sampler.ask(0) == {"hidden": [64]}


def test_configurations_far_apart_are_chosen_among_nested_ones() -> None:
    chosen = space_filling(RandomSampler(SPACE, seed=0), 6)
    assert {json.dumps(config["hidden"]) for config in chosen} == {"[64, 64]", "[128]", "null"}


def test_start_configurations_are_nested_or_dotted() -> None:
    sampler = RandomSampler(SPACE, seed=0)
    nested = sampler.complete(0, {"optimizer": {"momentum": 0.9}, "hidden": [128]})
    assert nested == sampler.complete(0, {"optimizer.momentum": 0.9, "hidden": [128]})
    optimizer = nested["optimizer"]
    assert isinstance(optimizer, dict)
    assert (optimizer["name"], optimizer["momentum"], nested["hidden"]) == ("sgd", 0.9, [128])


def test_all_mistakes_of_a_start_configuration_are_named() -> None:
    with pytest.raises(SpaceError) as caught:
        RandomSampler(SPACE, seed=0).complete(
            0, {"optimizer": {"lr": 7, "nme": "sgd", "schedule": {"kind": "flat"}}, "hidden": [64]}
        )
    assert [(each.path, each.text.split(";")[0]) for each in caught.value.mistakes] == [
        (("optimizer", "lr"), "is 7"),
        (("hidden",), "is '[64]'"),
        (("optimizer.nme",), "is no hyperparameter of this configuration"),
        (("optimizer", "schedule", "kind"), "is 'flat'"),
    ]


def test_a_condition_of_a_group_holds_for_all_its_members() -> None:
    space = parse_space(
        {
            "kind": ["cnn", "mlp"],
            "cnn": {"when": {"kind": "cnn"}, "width": {"int": [1, 4]}, "norm": "batch"},
            "mlp": {"when": {"kind": "mlp"}, "deep": {"depth": {"int": [1, 4]}}},
        }
    )
    for trial in range(10):
        config = RandomSampler(space, seed=0).ask(trial)
        assert_inside(space, config)
        assert set(config) == {"kind", config["kind"]}
    assert parse_space(json.loads(json.dumps(space.to_plain()))) == space


def test_a_space_with_groups_survives_the_way_to_plain_data_and_back() -> None:
    assert parse_space(json.loads(json.dumps(SPACE.to_plain()))) == SPACE
    assert pickle.loads(pickle.dumps(SPACE)) == SPACE
    assert SPACE.to_plain()["hidden"] == {"choice": [[64, 64], [128], None]}


def test_a_dotted_name_is_no_group() -> None:
    config = RandomSampler(parse_space({"a.b": [1, 2], "a": {"c": [3, 4]}}), seed=0).ask(0)
    assert set(config) == {"a.b", "a"}


@pytest.mark.parametrize(
    ("written", "messages"),
    [
        ({"lr": {"flaot": [0, 1]}}, ["space.lr is {'flaot': [0, 1]}; expected one of float, int and choice"]),
        ({"lr": {"log": True}}, ["space.lr is {'log': True}; expected one of float, int and choice"]),
        ({"lr": {"min": 0, "max": 1}}, ["space.lr is {'max': 1, 'min': 0}; expected one of float, int and"]),
        ({"lr": {"values": [1, 2]}}, ["space.lr is {'values': [1, 2]}; expected one of float, int and"]),
        ({"a": {"b": [1]}, "a.b": [2]}, ["space.a.b is given twice: as a member of a group, and by its"]),
        ({"a": {"n": [1], "x": {"int": [1, 2], "when": {"n": 1}}}, "n": [1]},
         ["space.a.x.when.n may be n or a.n; rename one of them"]),
        ({"a": {"x": {"int": [1, 2], "when": {"m": 1}}, "n": [1]}},
         ["space.a.x.when.m is no hyperparameter of this space; expected a.x or a.n"]),
        ({"n": [[1], [1]]}, ["space.n.1 is [1], which equals the choice [1]"]),
        ({"n": [[1], "[1]"]}, ["space.n.1 is '[1]', which equals the choice [1]"]),
        ({"n": [{"a": len}]}, ["space.n.0.a is <built-in function len>; expected text, finite numbers"]),
        (
            {
                "lr": {"float": [1, 0], "log": 3, "stp": 1},
                "optimizer": {"name": [], "beta": {"int": [1, 2], "when": {"name": "x", "nam": 2}}},
                "n": [1, 1, len],
                "when": {"int": [0, 1], "when": {"lr": 9}},
            },
            [
                "space: 7 problems",
                "space.lr.stp is not an option of float; expected log, step, grid or when",
                "space.lr.float is [1, 0]; expected the smaller end first",
                "space.lr.log is 3; expected true or false",
                "space.optimizer.name is []; expected a list of values",
                "space.n.1 is 1, which equals the choice 1",
                "space.n.2 is <built-in function len>; expected text",
                "space.optimizer.beta.when.nam is no hyperparameter of this space",
            ],
        ),
    ],
)  # fmt: skip
def test_all_mistakes_of_a_space_are_named_at_once(written: object, messages: list[str]) -> None:
    with pytest.raises(SpaceError) as caught:
        parse_space(written)
    for message in messages:
        assert message in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
