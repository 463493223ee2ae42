"""What every sampler promises, whichever it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from elastune.model.configuration import Configuration
from elastune.model.metric import Mode
from elastune.space.given_configurations import StartingSampler, TableSampler
from elastune.space.model_sampler import ModelSampler
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import GridSampler, QmcSampler, RandomSampler
from elastune.space.sampler import Sampler
from elastune.space.space import SpaceError
from elastune.space.table_model_sampler import TableModelSampler
from tests.space.inside import assert_inside

SPACE = parse_space(
    {
        "lr": {"float": [1e-4, 1.0], "log": True, "grid": 4},
        "n": {"int": [1, 5]},
        "c": ["a", "b"],
        "m": {"choice": [0.8, 0.9], "when": {"c": "a"}},
    }
)
ROWS = [GridSampler(SPACE).ask(trial) or {} for trial in range(GridSampler(SPACE).size)]
FLAT = [{**row, "m": row.get("m")} for row in ROWS]

MAKERS: dict[str, Callable[[int], Sampler]] = {
    "random": lambda seed: RandomSampler(SPACE, seed=seed),
    "grid": lambda seed: GridSampler(SPACE, seed=seed),
    "table": lambda seed: TableSampler(FLAT, seed=seed),
    "endless table": lambda seed: TableSampler(FLAT, seed=seed, replace=True),
    "sobol": lambda seed: QmcSampler(SPACE, seed=seed),
    "halton": lambda seed: QmcSampler(SPACE, seed=seed, sequence="halton"),
    "tpe": lambda seed: ModelSampler(SPACE, seed=seed, mode=Mode.MAX, startup=5),
    "tpe on a table": lambda seed: TableModelSampler(FLAT, seed=seed, mode=Mode.MAX, startup=5),
    "tpe on an endless table": lambda seed: TableModelSampler(
        FLAT, seed=seed, mode=Mode.MAX, startup=5, replace=True
    ),
    "tpe on a table after one": lambda seed: StartingSampler(
        TableModelSampler(FLAT, seed=seed, mode=Mode.MAX, startup=5), [{"c": "b", "n": 3}]
    ),
    "tpe after two": lambda seed: StartingSampler(
        ModelSampler(SPACE, seed=seed, mode=Mode.MAX, startup=5), [{"c": "b"}, {"m": 0.9, "lr": 0.5}]
    ),
    "grid after one": lambda seed: StartingSampler(GridSampler(SPACE, seed=seed), [{"c": "b", "lr": 0.5}]),
    "table after one": lambda seed: StartingSampler(TableSampler(FLAT, seed=seed), [{"c": "b", "n": 3}]),
}


@pytest.fixture(params=list(MAKERS.values()), ids=list(MAKERS))
def make(request: pytest.FixtureRequest) -> Callable[[int], Sampler]:
    return request.param  # type: ignore[no-any-return]


def asked(sampler: Sampler, trials: int) -> list[Configuration | None]:
    """A small run: trials come in threes, and each third learns how the one before it went."""
    configs: list[Configuration | None] = []
    for trial in range(trials):
        config = sampler.ask(trial)
        configs.append(config)
        if trial % 3 == 2:
            for each in range(trial - 2, trial + 1):
                earlier = configs[each]
                if earlier is not None and isinstance(n := earlier["n"], int):
                    sampler.tell(each, 1, float(n))
    return configs


def without_none(config: Configuration) -> Configuration:
    return {name: value for name, value in config.items() if value is not None}


def test_the_same_history_gives_the_same_configurations(make: Callable[[int], Sampler]) -> None:
    assert asked(make(7), 30) == asked(make(7), 30)


def test_configurations_are_inside_the_space(make: Callable[[int], Sampler]) -> None:
    for config in asked(make(3), 30):
        if config is not None:
            assert_inside(SPACE, without_none(config))


def test_it_gives_as_many_as_it_says(make: Callable[[int], Sampler]) -> None:
    sampler = make(1)
    size = sampler.size
    if size is not None:
        given = [sampler.ask(trial) for trial in range(size)]
        assert None not in given
        assert sampler.ask(size) is None
        assert len({str(config) for config in given}) == size


def test_samplers_that_do_not_learn_do_not_listen(make: Callable[[int], Sampler]) -> None:
    deaf, telling = make(5), make(5)
    if not telling.learns:
        assert asked(telling, 20) == [deaf.ask(trial) for trial in reversed(range(20))][::-1]


def test_a_fork_is_a_configuration_of_the_space(make: Callable[[int], Sampler]) -> None:
    sampler = make(2)
    parent = sampler.ask(0)
    assert parent is not None
    forks = [sampler.fork(trial, parent) for trial in range(1, 20)]
    assert forks == [make(2).fork(trial, parent) for trial in range(1, 20)]
    for fork in forks:
        assert fork is not None
        assert_inside(SPACE, without_none(fork))
    assert len({str(fork) for fork in forks}) > 3


def test_given_values_are_kept_and_the_others_sampled(make: Callable[[int], Sampler]) -> None:
    sampler = make(4)
    config = sampler.complete(0, {"n": 3, "c": "b"})
    assert (config["n"], config["c"]) == (3, "b")
    assert_inside(SPACE, without_none(config))
    assert sampler.complete(1, config) == config
    with pytest.raises(SpaceError):
        sampler.complete(2, {"n": 99})
    with pytest.raises(SpaceError):
        sampler.complete(2, {"nn": 1})
