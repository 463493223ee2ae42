"""Samplers that learn."""

from __future__ import annotations

import logging
import math
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastune.errors import JobError
from elastune.model.configuration import Configuration
from elastune.model.metric import Mode
from elastune.space.function_space import FunctionSpace, SuggestingTrial
from elastune.space.model_sampler import Evidence, Model, ModelSampler
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import RandomSampler
from elastune.space.space import Space
from tests.space.inside import assert_inside
from tests.space.spaces import conditional_spaces

SPACE = parse_space(
    {
        "x": {"float": [-5.0, 5.0]},
        "y": {"float": [1e-4, 1.0], "log": True},
        "c": ["a", "b"],
        "m": {"float": [0.0, 1.0], "when": {"c": "a"}},
    }
)


def number(config: Configuration, name: str) -> float:
    value = config.get(name, 0.5)
    assert isinstance(value, int | float)
    return float(value)


def loss(config: Configuration) -> float:
    far = (number(config, "x") - 1) ** 2 + (math.log10(number(config, "y")) + 2) ** 2
    return far + number(config, "m") + (0.0 if config["c"] == "a" else 1.0)


def best(sampler: ModelSampler | RandomSampler, sign: float, trials: int) -> float:
    """The least loss that is found."""
    found = []
    for trial in range(trials):
        config = sampler.ask(trial)
        found.append(loss(config))
        sampler.tell(trial, 1, sign * found[-1])
    return min(found)


@pytest.mark.parametrize(("mode", "sign"), [(Mode.MIN, 1.0), (Mode.MAX, -1.0)])
def test_tpe_finds_better_configurations_than_chance(mode: Mode, sign: float) -> None:
    learned = [best(ModelSampler(SPACE, seed=seed, mode=mode), sign, 40) for seed in range(6)]
    drawn = [best(RandomSampler(SPACE, seed=seed), sign, 40) for seed in range(6)]
    assert fmean(learned) < 0.6 * fmean(drawn)


@pytest.mark.slow
def test_a_gaussian_process_finds_better_configurations_than_chance() -> None:
    pytest.importorskip("torch", reason="the Gaussian process of Optuna computes with PyTorch")
    space = parse_space({"x": {"float": [-5.0, 5.0]}, "y": {"float": [1e-4, 1.0], "log": True}, "c": ["a"]})
    learned = best(ModelSampler(space, seed=0, mode=Mode.MIN, model="gp", startup=6), 1.0, 16)
    assert learned < best(RandomSampler(space, seed=0), 1.0, 16)


def test_without_pytorch_the_gaussian_process_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(
        JobError, match=r"search\.sampler is gp, which needs PyTorch.*pip install 'elastune\[gp\]'"
    ):
        ModelSampler(SPACE, seed=0, mode=Mode.MIN, model="gp")


def test_the_first_trials_are_those_of_random_search() -> None:
    sampler = ModelSampler(SPACE, seed=3, mode=Mode.MIN, startup=6)
    random = RandomSampler(SPACE, seed=3)
    for trial in range(12):
        config = sampler.ask(trial)
        assert (config == random.ask(trial)) == (trial < 6)
        sampler.tell(trial, 1, loss(config))


def test_trials_without_a_value_keep_others_away() -> None:
    sampler = ModelSampler(SPACE, seed=0, mode=Mode.MIN)
    for trial in range(20):
        sampler.tell(trial, 1, loss(sampler.ask(trial)))
    side_by_side = [sampler.ask(trial) for trial in range(20, 28)]
    assert len({str(config) for config in side_by_side}) == 8
    crowded = ModelSampler(SPACE, seed=0, mode=Mode.MIN)
    for trial in range(20):
        crowded.tell(trial, 1, loss(crowded.ask(trial)))
    for trial in range(30, 60):
        crowded.complete(trial, side_by_side[0])
    assert crowded.ask(20) != side_by_side[0]


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped() -> None:
    whole = ModelSampler(SPACE, seed=1, mode=Mode.MIN, startup=4)
    history: list[tuple[int, Configuration]] = []
    for trial in range(15):
        config = whole.ask(trial)
        history.append((trial, config))
        if trial >= 3:
            whole.tell(trial - 3, 1, loss(history[trial - 3][1]))
    resumed = ModelSampler(SPACE, seed=1, mode=Mode.MIN, startup=4)
    for trial, config in history:
        assert resumed.complete(trial, config) == config
    for trial in range(12):
        resumed.tell(trial, 1, loss(history[trial][1]))
    assert [resumed.ask(trial) for trial in (15, 16)] == [whole.ask(trial) for trial in (15, 16)]


def test_reports_of_unknown_trials_are_ignored() -> None:
    sampler = ModelSampler(SPACE, seed=1, mode=Mode.MIN, startup=1)
    for trial in range(50):
        sampler.tell(trial, 1, 0.0)
    assert sampler.ask(60) == RandomSampler(SPACE, seed=1).ask(60)


# Of TPE, where all values of a trial are at an edge; what it suggests is right.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(conditional_spaces(), st.integers(0, 2**32), st.sampled_from(["tpe"]))
@settings(max_examples=25)
def test_what_is_learned_is_inside_any_space(space: Space, seed: int, model: Model) -> None:
    sampler = ModelSampler(space, seed=seed, mode=Mode.MAX, model=model, startup=3)
    for trial in range(len(space.domains) + 6):
        config = sampler.ask(trial)
        assert_inside(space, config)
        sampler.tell(trial, 1, float(trial % 4))


def test_a_function_can_be_learned() -> None:
    def suggest(trial: SuggestingTrial) -> dict[str, object]:
        trial.suggest_float("x", -5.0, 5.0)
        trial.suggest_float("y", 1e-4, 1.0, log=True)
        if trial.suggest_categorical("c", ["a", "b"]) == "a":
            trial.suggest_float("m", 0.0, 1.0)
        return {"epochs": 3}

    space = FunctionSpace(function=suggest, name="suggest")
    learned = [best(ModelSampler(space, seed=seed, mode=Mode.MIN), 1.0, 40) for seed in range(4)]
    drawn = [best(RandomSampler(space, seed=seed), 1.0, 40) for seed in range(4)]
    assert fmean(learned) < fmean(drawn)


def test_optuna_is_not_heard_of(capfd: pytest.CaptureFixture[str]) -> None:
    sampler = ModelSampler(SPACE, seed=1, mode=Mode.MIN, startup=1)
    for trial in range(8):
        sampler.tell(trial, 1, loss(sampler.ask(trial)))
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")
    assert logging.getLogger("optuna").level == logging.INFO


def test_the_model_is_made_of_the_highest_iteration_with_enough_values() -> None:
    evidence = Evidence()
    for trial in range(5):
        evidence.add(trial, 1, float(trial), hyperparameters=3)
        assert evidence.level == (1 if trial >= 3 else None)
    for trial in range(4):
        evidence.add(trial, 9, 10.0 + trial, hyperparameters=3)
        assert evidence.level == (9 if trial == 3 else 1)
    evidence.add(7, 3, 0.0, hyperparameters=3)
    assert evidence.values() == {0: 10.0, 1: 11.0, 2: 12.0, 3: 13.0}
    assert set(evidence.seen) == {0, 1, 2, 3, 4, 7}


def test_two_values_are_never_enough() -> None:
    evidence = Evidence()
    for trial in range(3):
        assert evidence.level is None
        evidence.add(trial, 1, 0.0, hyperparameters=1)
    assert evidence.level == 1


def test_an_iteration_that_is_repeated_counts_once() -> None:
    evidence = Evidence()
    for _ in range(5):
        evidence.add(0, 1, 1.0, hyperparameters=1)
    assert (evidence.level, evidence.values()) == (None, {})
