"""A `Tuner` of Ray Tune becomes a job: its configurations, its search, its stop; and its results are read."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import tune as native
from ray.tune import schedulers
from ray.tune.experiment import Experiment
from ray.tune.result import DONE
from ray.tune.search import BasicVariantGenerator, ConcurrencyLimiter, Repeater
from ray.tune.search.optuna import OptunaSearch
from ray.tune.stopper import (
    FunctionStopper,
    MaximumIterationStopper,
    TimeoutStopper,
    TrialPlateauStopper,
)

from elastune.adapters import ray_tune as tune
from elastune.adapters.ray_tune.searches import TunerSettings, translate
from elastune.adapters.ray_tune.spaces import draw
from elastune.errors import JobError
from elastune.space.space import SpaceError
from tests.adapters.in_process import carry_out

WIDTH = {"width": native.uniform(0, 20), "height": native.uniform(-100, 100)}


def seed(number: int) -> None:
    """Ray Tune draws from numpy's global generator."""
    np.random.seed(number)  # noqa: NPY002


def objective(config: Mapping[str, Any]) -> None:
    for step in range(8):
        tune.report({"loss": 1 / (0.1 + config["width"] * step / 100) + config["height"] * 0.1})


@pytest.fixture
def tuner(tmp_path: Path) -> type[Any]:
    """Runs without Ray."""

    class VirtualTuner(tune.Tuner):
        tune = staticmethod(carry_out(tmp_path))

        def fit(self, **keys: Any) -> Any:
            return super().fit(folder=tmp_path, **keys)

    return VirtualTuner


def keys_of(**settings: Any) -> Mapping[str, Any]:
    usual = {"param_space": WIDTH, "metric": "loss", "mode": "min", "samples": 4}
    return translate(TunerSettings(**{**usual, **settings})).keys


SPACES = {
    "random": {
        "lr": native.loguniform(1e-4, 1e-1),
        "batch": native.choice([16, 32]),
        "n": native.randint(1, 9),
    },
    "grid": {"a": native.grid_search([1, 2, 3]), "b": native.grid_search(["x", "y"])},
    "both": {"a": native.grid_search([1, 2]), "lr": native.quniform(0, 1, 0.1), "c": native.randn(0, 1)},
    "dependent": {
        "a": native.uniform(0, 1),
        "b": native.sample_from(lambda spec: spec.config.a * 2),
        "c": native.sample_from(lambda _: np.random.uniform(5)),  # noqa: NPY002
    },
    "nested": {
        "model": {"layers": native.choice([[64, 64], [128]]), "act": native.choice([max, min])},
        "k": 3,
    },
}


def of_ray(space: Mapping[str, Any], samples: int, **options: Any) -> list[dict[str, Any]]:
    """The configurations of a native run, without one."""
    generator = BasicVariantGenerator(**options)
    generator.add_configurations([Experiment("x", run=objective, config=space, num_samples=samples)])
    found = []
    while (trial := generator.next_trial()) is not None:
        found.append(trial.config)
    return found


@pytest.mark.parametrize("name", SPACES)
def test_configurations_are_those_of_ray_tune_for_the_same_seed(name: str) -> None:
    space = SPACES[name]
    seed(5)
    native_ones = of_ray(space, 3)
    seed(5)
    assert draw(space, samples=3) == native_ones
    seed(5)
    translation = translate(TunerSettings(param_space=space, metric="loss", mode="min", samples=3))
    starts = translation.keys["start_configurations"]
    assert [translation.layout.nested(each) for each in starts] == native_ones
    assert all(
        isinstance(value, str | int | float | bool | None) for each in starts for value in each.values()
    )


def test_points_to_evaluate_come_first_as_in_ray_tune() -> None:
    space = {"a": native.grid_search([1, 2]), "b": native.randint(0, 30)}
    options = {"points_to_evaluate": [{"a": 2, "b": 2}, {"b": 3}], "random_state": 3}
    drawn = keys_of(param_space=space, samples=3, search_alg=BasicVariantGenerator(**options))
    assert drawn["start_configurations"] == of_ray(space, 3, **options)


def test_a_space_for_elastune_has_the_ranges_of_ray_tune() -> None:
    found = tune.space({"net": {"lr": native.loguniform(1e-4, 1e-1)}, "n": native.choice([1, None]), "k": 2})
    assert found.to_plain() == {
        "k": 2,
        "net/lr": {"float": [1e-4, 0.1], "log": True},
        "n": {"choice": [1, None]},
    }


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"x": native.randn(0, 1)}, "space.x is randn of Ray Tune; it has no ends"),
        ({"x": native.sample_from(lambda _: 1)}, "space.x is sample_from of Ray Tune"),
        ({"x": [native.uniform(0, 1)]}, "param_space.x is a list with ranges in it; give each a name"),
        ({"a/b": native.uniform(0, 1), "a": {"b": native.uniform(0, 1)}}, "two hyperparameters .* a/b"),
        ([1], r"param_space is \[1\]; expected a dict"),
    ],
)
def test_a_range_that_cannot_be_carried_over_is_named(space: Any, message: str) -> None:
    with pytest.raises((SpaceError, JobError), match=message):
        tune.space(space)


ASHA = {"algorithm": "asha", "trials": 4, "min_iterations": 2, "max_iterations": 9, "eta": 3}
MUTATIONS = {"width": native.uniform(0, 20), "height": native.uniform(-100, 100)}


@pytest.mark.parametrize(
    ("settings", "search"),
    [
        ({"stop": {"training_iteration": 5}}, {"algorithm": "random", "trials": 4, "max_iterations": 5}),
        (
            {"stop": MaximumIterationStopper(5)},
            {"algorithm": "random", "trials": 4, "max_iterations": 5},
        ),
        ({"scheduler": schedulers.ASHAScheduler(max_t=9, grace_period=2, reduction_factor=3)}, ASHA),
        (
            {"scheduler": schedulers.ASHAScheduler(max_t=9, grace_period=2, reduction_factor=3),
             "search_alg": OptunaSearch()},
            {**ASHA, "sampler": "tpe"},
        ),
        (
            {"scheduler": schedulers.HyperBandScheduler(max_t=27, reduction_factor=3)},
            {"algorithm": "sha", "trials": 4, "max_iterations": 27, "eta": 3},
        ),
        (
            {"scheduler": schedulers.PopulationBasedTraining(
                time_attr="training_iteration", perturbation_interval=4, hyperparam_mutations=MUTATIONS),
             "stop": {"training_iteration": 20}},
            {"algorithm": "pbt", "trials": 4, "interval": 4, "quantile": 0.25, "max_iterations": 20},
        ),
        ({"samples": -1, "stop": {"training_iteration": 5}}, {"algorithm": "random", "max_iterations": 5}),
    ],
)  # fmt: skip
def test_searches_and_schedulers_are_those_of_the_job(settings: Any, search: Any) -> None:
    assert keys_of(**settings)["search"] == search


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": None}, r"the metric is missing; change TuneConfig\(...\)"),
        ({"scheduler": schedulers.MedianStoppingRule()}, "MedianStoppingRule.*remove scheduler="),
        ({"scheduler": schedulers.ASHAScheduler(time_attr="epoch")}, "counts epoch; change it to time_attr="),
        ({"search_alg": Repeater(OptunaSearch())}, "search_alg is Repeater.*remove search_alg="),
        ({"stop": TrialPlateauStopper("loss")}, "stop is TrialPlateauStopper.*change it to a dict"),
        ({"never_ends": True}, r"stop is missing, and a class trains for ever; add RunConfig\(stop="),
        ({"resources": {"gpu": 0.5}}, "change them to whole GPUs"),
        (
            {"scheduler": schedulers.PopulationBasedTraining(
                time_attr="training_iteration", hyperparam_mutations={"width": [1, 2]})},
            "param_space has height, which hyperparam_mutations does not have",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_over_names_the_line_to_change(settings: Any, message: str) -> None:
    with pytest.raises(JobError, match=message):
        keys_of(**settings)


def test_limits_resources_and_retries_are_carried_over(caplog: pytest.LogCaptureFixture) -> None:
    limited = ConcurrencyLimiter(OptunaSearch(), max_concurrent=2)
    keys = keys_of(
        time_budget_s=datetime.timedelta(minutes=2),
        stop=TimeoutStopper(90),
        resources={"cpu": 2},
        max_failures=3,
        search_alg=limited,
    )
    assert (keys["deadline"], keys["slot"], keys["retries"]) == (90.0, {"cpus": 2}, 3)
    assert "ConcurrencyLimiter is ignored" in caplog.text
    assert "how many reports a trial makes is not known" in caplog.text
    assert keys_of(resources=native.PlacementGroupFactory([{"CPU": 1, "GPU": 2}]))["slot"] == {"gpus": 2}
    assert keys_of(stop=FunctionStopper(lambda *_: True))["search"]["max_iterations"] == 1_000


def test_a_tuner_finds_the_best_of_what_ray_tune_would_have_drawn(tuner: Any) -> None:
    seed(3)
    expected = draw(WIDTH, samples=5)
    seed(3)
    grid = tuner(
        tune.with_resources(objective, {"cpu": 1}),
        param_space=WIDTH,
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=5),
    ).fit()
    last = [1 / (0.1 + each["width"] * 7 / 100) + each["height"] * 0.1 for each in expected]
    assert [each.config for each in grid] == expected
    assert [each.metrics["loss"] for each in grid] == pytest.approx(last)
    best = grid.get_best_result()
    assert best.config == expected[int(np.argmin(last))]
    assert best.metrics["training_iteration"] == 8
    assert best.metrics_dataframe["loss"].iloc[-1] == best.metrics["loss"]
    assert grid.get_best_result(scope="all", mode="max").score("loss", "max", "all") == max(
        each.score("loss", "max", "all") for each in grid
    )
    frame = grid.get_dataframe(filter_metric="loss", filter_mode="min")
    assert list(frame["config/width"]) == [each["width"] for each in expected]
    assert (grid.num_errors, grid.num_terminated, len(grid)) == (0, 5, 5)
    assert best.checkpoint is None


def test_keys_of_fit_come_before_what_the_tuner_says(tuner: Any) -> None:
    grid = tuner(
        objective, param_space=WIDTH, tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=9)
    ).fit(search={"algorithm": "asha", "trials": 9, "max_iterations": 8, "eta": 2}, name="mine")
    assert grid.run.policy == "asha"
    assert grid.run.iterations < 9 * 8
    assert "mine" in grid.experiment_path


def test_trials_that_fail_are_among_the_errors(tuner: Any) -> None:
    def fail(config: Mapping[str, Any]) -> None:
        tune.report({"loss": math.nan if config["x"] == 1 else 1.0})

    grid = tuner(
        fail,
        param_space={"x": tune.grid_search([1, 2])},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(stop={"training_iteration": 1}),
    ).fit()
    assert grid.num_errors == 1
    assert grid.get_best_result().config == {"x": 2}


def test_a_class_learns_in_a_population(tuner: Any) -> None:
    class Climber(native.Trainable):  # type: ignore[misc]
        def setup(self, config: Mapping[str, Any]) -> None:
            self.height, self.rate = 0.0, config["rate"]

        def step(self) -> dict[str, float]:
            self.height += self.rate + random.random() / 10
            return {"height": self.height}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, float]:
            return {"height": self.height}

        def load_checkpoint(self, checkpoint: dict[str, float]) -> None:
            self.height = checkpoint["height"]

    grid = tuner(
        Climber,
        param_space={"rate": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(metric="height", mode="max", num_samples=4),
        run_config=tune.RunConfig(stop={"training_iteration": 6}),
    ).fit()
    assert len(grid) == 4
    assert grid.get_best_result().metrics["training_iteration"] == 6


class Countdown(native.Trainable):  # type: ignore[misc]
    def setup(self, config: Mapping[str, Any]) -> None:
        self.x, self.lr = 5.0, config["lr"]

    def step(self) -> dict[str, Any]:
        self.x -= self.lr * 2 * self.x
        return {"loss": self.x**2, "done": self.training_iteration >= 3}


class ByConstant(Countdown):
    def step(self) -> dict[str, Any]:
        return {"loss": self.x, DONE: True}


class Endless(Countdown):
    def step(self) -> dict[str, Any]:
        return {"loss": self.x}


def test_a_class_that_reports_its_end_needs_no_stop(tuner: Any) -> None:
    options = {
        "param_space": {"lr": tune.grid_search([0.1, 0.3])},
        "tune_config": tune.TuneConfig(metric="loss", mode="min"),
    }
    grid = tuner(Countdown, **options).fit()
    assert [each.metrics["training_iteration"] for each in grid] == [4, 4]
    assert grid.get_best_result().metrics["loss"] == pytest.approx(25 * 0.4**8)
    assert tuner(ByConstant, **options).fit().num_errors == 0
    with pytest.raises(JobError, match="let step return 'done': True at the end"):
        tuner(type("Plain", (native.Trainable,), {"step": Endless.step}), **options).fit()


def test_what_a_tuner_cannot_do_says_what_to_do_instead() -> None:
    with pytest.raises(JobError, match=r"call elastune.resume\(run\) instead"):
        tune.Tuner.restore("~/ray_results/x")
    with pytest.raises(JobError, match=r"resume of tune\.run is not carried over"):
        tune.run(objective, resume=True)
    with pytest.raises(JobError, match="the trainable is the name 'ppo'; change it to the function"):
        tune.run("ppo", metric="loss")
