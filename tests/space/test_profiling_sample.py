"""Configurations chosen to differ: extremes, every category, and the first ones that are given."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elastune.model.configuration import Configuration
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import GridSampler, RandomSampler
from elastune.space.profiling_sample import draw, space_filling
from tests.thoroughness import examples

SPACE = parse_space(
    {
        "width": {"int": [16, 1024], "log": True},
        "depth": {"int": [1, 8]},
        "act": {"choice": ["relu", "gelu", "tanh"]},
        "lr": {"float": [1e-4, 1.0], "log": True},
    }
)


@examples(10, explore=20)
@given(st.integers(0, 50), st.integers(1, 9))
def test_they_are_different_ones_of_the_sampler_and_depend_on_the_seed_alone(seed: int, count: int) -> None:
    chosen = space_filling(RandomSampler(SPACE, seed=seed), count)
    assert chosen == space_filling(RandomSampler(SPACE, seed=seed), count)
    assert len(chosen) == count
    assert len({repr(each) for each in chosen}) == count
    candidates = [RandomSampler(SPACE, seed=seed).ask(trial) for trial in range(512)]
    assert all(each in candidates for each in chosen)


@examples(10, explore=20)
@given(st.integers(0, 50))
def test_every_category_and_the_ends_of_every_range_are_among_them(seed: int) -> None:
    chosen = space_filling(RandomSampler(SPACE, seed=seed), 6)
    assert {each["act"] for each in chosen} == {"relu", "gelu", "tanh"}
    widths, depths = ([float(str(each[name])) for each in chosen] for name in ("width", "depth"))
    assert min(widths) < 50
    assert max(widths) > 400
    assert min(depths) <= 3
    assert max(depths) >= 6


def test_the_given_ones_come_first_and_the_others_keep_away_from_them() -> None:
    first: Configuration = {"width": 16, "depth": 1, "act": "relu", "lr": 1e-4}
    chosen = space_filling(RandomSampler(SPACE, seed=0), 2, [first])
    assert chosen[0] == first
    assert float(str(chosen[1]["width"])) > 100
    assert chosen[1]["act"] != "relu"
    assert space_filling(RandomSampler(SPACE, seed=0), 1, [first, chosen[1]]) == (first,)


def test_a_small_space_gives_all_it_has() -> None:
    grid = GridSampler(parse_space({"act": {"choice": ["relu", "gelu"]}}), seed=0)
    assert len(draw(grid, 10)) == 2
    assert len(space_filling(grid, 6)) == 2
    constant = parse_space({"act": {"choice": ["relu"]}})
    assert len(space_filling(RandomSampler(constant, seed=0), 6)) == 1


def test_conditional_hyperparameters_are_there_and_missing() -> None:
    space = parse_space(
        {
            "optimizer": {"choice": ["sgd", "adam"]},
            "momentum": {"float": [0.0, 1.0], "when": {"optimizer": "sgd"}},
        }
    )
    chosen = space_filling(RandomSampler(space, seed=0), 4)
    assert {"momentum" in each for each in chosen} == {True, False}


def test_drawn_configurations_are_as_frequent_as_in_a_run() -> None:
    """Small widths of a logarithmic range are drawn again and again; without them the average is too wide."""
    space = parse_space({"width": {"int": [16, 256], "log": True}})
    widths = [int(str(config["width"])) for config in draw(RandomSampler(space, seed=0), 1000)]
    assert len(widths) == 1000
    assert 75 < sum(widths) / len(widths) < 95
