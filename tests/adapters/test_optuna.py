"""Objectives of Optuna: what they suggest is found without training them, and they train report by report."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import optuna as native
import pytest
from optuna.trial import TrialState

from elastune.adapters import optuna
from elastune.adapters.optuna.objective_space import ObjectiveSpace
from elastune.adapters.optuna.study import Study
from elastune.errors import ExecutionError, JobError
from elastune.model.configuration import Scalar
from elastune.space.function_space import FunctionSpace
from elastune.space.space import Distribution
from elastune.space.values import quantile
from elastune.training.groups import Solo
from elastune.training.recipe import open_recipe
from elastune.training.worker import make_worker
from tests.adapters.in_process import carry_out

EPOCHS = 5


class TrainedError(Exception):
    """Training has begun where only suggestions were wanted."""


def fit(*_: object) -> float:
    raise TrainedError


def plain(trial: Any) -> float:
    x = trial.suggest_float("x", 0, 1)
    return fit(x)


def in_one_line(trial: Any) -> float:
    return fit(trial.suggest_float("x", 0, 1))


def conditional(trial: Any) -> float:
    kind = trial.suggest_categorical("kind", ["svc", "forest"])
    if kind == "svc":
        model = ("svc", trial.suggest_float("c", 1e-3, 1e3, log=True))
    else:
        model = ("forest", trial.suggest_int("depth", 2, 32, log=True))
    return fit(model)


def layers_of(trial: Any) -> list[Any]:
    layers: list[Any] = []
    for number in range(trial.suggest_int("layers", 1, 3)):
        layers.append(trial.suggest_int(f"units{number}", 4, 128))
        layers.append(trial.suggest_float(f"dropout{number}", 0.2, 0.5))
    layers.append("softmax")
    return layers


def by_run(trial: Any) -> float:
    model = layers_of(trial)
    trial.set_user_attr("size", len(model))
    loader = [model] * 3
    for epoch in range(EPOCHS):
        fit(loader, epoch)
        trial.report(1.0, epoch)
        if trial.should_prune():
            raise native.TrialPruned
    return 1.0


def in_a_dict(trial: Any, data: object = None) -> float:
    params = {
        "booster": trial.suggest_categorical("booster", ["tree", "linear"]),
        "lambda": trial.suggest_float("lambda", 1e-8, 1.0, log=True),
    }
    if params["booster"] == "tree":
        params["depth"] = trial.suggest_int("depth", 1, 9)
    return fit(params, data)


def in_a_comprehension(trial: Any) -> float:
    return fit([trial.suggest_float(f"p{number}", 0, 1) for number in range(3)])


def handed_on(trial: Any) -> float:
    return in_a_comprehension(trial)


class AsObject:
    def __init__(self, data: object) -> None:
        self.data = data

    def __call__(self, trial: Any) -> float:
        self.trial = trial
        rate = self.rate()
        del self.trial
        return fit(rate, self.data)

    def rate(self) -> float:
        found: float = self.trial.suggest_float("rate", 0, 1)
        return found


def with_blocks(trial: Any) -> float:
    try:
        low = trial.suggest_float("low", 0, 0.5)
        with Path("/dev/null").open() as _:
            high = trial.suggest_float("high", 0, 1) if low < 1 else trial.suggest_float("never", 0, 1)
            while high > 2:
                high = trial.suggest_float("nor this", 0, 1)
            return fit(low, high)
    finally:
        trial.set_user_attr("closed", True)


OBJECTIVES: dict[str, tuple[Callable[[Any], object], list[str]]] = {
    "plain": (plain, ["x"]),
    "in one line": (in_one_line, ["x"]),
    "conditional": (conditional, ["kind", "depth"]),
    "by run": (by_run, ["layers", "units0", "dropout0", "units1", "dropout1"]),
    "in a dict": (in_a_dict, ["booster", "lambda"]),
    "comprehension": (in_a_comprehension, ["p0", "p1", "p2"]),
    "handed on": (handed_on, ["p0", "p1", "p2"]),
    "an object": (AsObject([1]), ["rate"]),
    "a partial": (partial(in_a_dict, data=[1]), ["booster", "lambda"]),
    "a lambda": (lambda trial: in_a_dict(trial, data=[1]), ["booster", "lambda"]),
    "a lambda that trains": (lambda trial: fit(trial.suggest_float("x", 0, 1)), ["x"]),
    "with blocks": (with_blocks, ["low", "high"]),
}


def middle(name: str, distribution: Distribution) -> Scalar:
    return quantile(distribution)(0.5)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_suggestions_are_found_without_training(name: str) -> None:
    objective, names = OBJECTIVES[name]
    space = FunctionSpace(function=optuna.space(objective), name=name)
    assert list(space.configure(middle)) == names


def test_what_the_objective_does_to_its_lines_has_no_effect_on_the_debugger() -> None:
    import sys  # noqa: PLC0415

    before = sys.gettrace()
    FunctionSpace(function=optuna.space(plain), name="plain").configure(middle)
    assert sys.gettrace() is before


def test_the_objective_runs_once_for_each_combination_of_choices() -> None:
    space = ObjectiveSpace(by_run)
    rng = random.Random(1)
    function = FunctionSpace(function=space, name="by run")
    for _ in range(40):
        config = function.configure(lambda _, distribution: quantile(distribution)(rng.random()))
        assert len(config) == 1 + 2 * int(str(config["layers"]))
    assert space.runs == 3
    assert (space.reports.any, space.reports.count) == (True, EPOCHS)
    assert not ObjectiveSpace(plain).reports.any


def answer(given: Mapping[str, Scalar], name: str, distribution: Distribution) -> Scalar:
    return given[name]


def test_with_every_it_runs_for_each_configuration() -> None:
    def shrinking(trial: Any) -> float:
        first = trial.suggest_float("first", 0.1, 1)
        return fit(trial.suggest_float("second", 0, first))

    space = ObjectiveSpace(shrinking, every=True)
    for share in (0.0, 0.5, 0.9):
        given = {"first": share + 0.1, "second": 0.01}
        FunctionSpace(function=space, name="shrinking").configure(partial(answer, given))
    assert space.runs >= 3


def learn(trial: Any) -> float:
    rate = trial.suggest_float("rate", 0, 1)
    weight = 0.0
    for epoch in range(EPOCHS):
        weight += rate + random.random()
        trial.report(weight, epoch)
        trial.set_user_attr("epoch", epoch)
        trial.set_user_attr("text", "not a number")
        if trial.should_prune():
            raise native.TrialPruned
    return weight


def steps(objective: Callable[[Any], object], config: dict[str, Any], count: int = 99) -> list[Any]:
    worker = make_worker(Solo(), seed=3, trial=4)
    training = open_recipe(optuna.trainable(objective), name="user", metric="value").start(
        config, worker, None
    )
    rows = []
    try:
        for worker.iteration in range(1, count + 1):
            rows.append(training.step())
            if rows[-1] is None:
                break
    finally:
        training.close()
    return rows


def test_an_objective_trains_report_by_report_and_repeats_itself() -> None:
    rows = steps(learn, {"rate": 0.5})
    assert rows[-1] is None
    assert [row.get("step") for row in rows[:-1]] == [0, 1, 2, 3, 4, None]
    assert rows[-2]["value"] == rows[-3]["value"]
    assert rows[3]["user/epoch"] == 2.0
    assert "user/text" not in rows[3]
    assert steps(learn, {"rate": 0.5}) == rows
    assert steps(cloudpickle.loads(cloudpickle.dumps(learn)), {"rate": 0.5}, 2) == rows[:2]


def test_the_value_that_it_returns_is_one_more_iteration() -> None:
    def best(trial: Any) -> float:
        for epoch in range(3):
            trial.report(epoch, epoch)
            trial.report(100, epoch)  # a second report of a step is ignored
        return 10.0

    assert [row and row["value"] for row in steps(best, {})] == [0, 1, 2, 10, None]
    assert [row and row["value"] for row in steps(lambda trial: 7, {})] == [7, None]


def test_the_end_of_a_trial_raises_what_a_pruner_would_make_it_raise(tmp_path: Path) -> None:
    def careful(trial: Any) -> float:
        assert trial.number == 4
        try:
            return learn(trial)
        except native.TrialPruned:
            (tmp_path / f"pruned with {trial.params}").touch()
            raise

    steps(careful, {"rate": 0.5}, 2)
    assert [each.name for each in tmp_path.iterdir()] == ["pruned with {'rate': 0.5}"]


def test_choices_may_be_lists(create_study: Any) -> None:
    def wide(trial: Any) -> float:
        layers = trial.suggest_categorical("layers", [[64, 64], [128]])
        assert isinstance(layers, list)
        return float(sum(layers))

    study = create_study(sampler=native.samplers.RandomSampler(seed=1))
    study.optimize(wide, n_trials=6)
    assert {trial.value for trial in study.trials} == {128.0}
    assert {trial.params["layers"] for trial in study.trials} == {"[64, 64]", "[128]"}


def test_an_objective_that_prunes_itself_is_finished() -> None:
    def give_up(trial: Any) -> float:
        trial.report(3.0, 0)
        raise native.TrialPruned

    assert [row and row["value"] for row in steps(give_up, {})] == [3.0, None]


def pruned_at_once(trial: Any) -> float:
    raise native.TrialPruned


@pytest.mark.parametrize(
    ("objective", "config", "message"),
    [
        (lambda trial: (1.0, 2.0), {}, "returned 2 values; expected one: several objectives are not carried"),
        (lambda trial: "good", {}, "returned 'good'; expected one number"),
        (lambda trial: trial.report("x", 0), {}, "trial.report got 'x' and 0; expected a number"),
        (lambda trial: trial.study, {}, "uses trial.study, which is not carried over; remove it"),
        (pruned_at_once, {}, "raised TrialPruned before its first report"),
        (plain, {}, r"suggests 'x', which this configuration does not have.*every=True"),
        (plain, {"x": 3}, r"suggests 'x' as a number from 0 to 1, but it is 3.*every=True"),
    ],
)
def test_what_goes_wrong_in_an_objective_says_what_to_change(
    objective: Any, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(JobError, match=message):
        steps(objective, config)


@pytest.fixture
def create_study(tmp_path: Path) -> Callable[..., Any]:
    """Studies that run without Ray."""

    class VirtualStudy(Study):
        tune = staticmethod(carry_out(tmp_path))

        def optimize(self, *arguments: Any, **keys: Any) -> None:
            super().optimize(*arguments, folder=tmp_path, **keys)

    def create(**options: Any) -> Any:
        study = optuna.create_study(**options)
        study.__class__ = VirtualStudy
        return study

    return create


def parabola(trial: Any) -> float:
    x = trial.suggest_float("x", -10, 10)
    trial.set_user_attr("square", x * x)
    return float((x - 2) ** 2)


def test_a_study_has_everything_that_optuna_keeps(create_study: Any) -> None:
    study = create_study(study_name="mine")
    study.enqueue_trial({"x": 2.5})
    study.optimize(parabola, n_trials=12)
    assert study.run.ending.value == "complete"
    assert (len(study.trials), study.study_name) == (12, "mine")
    assert study.trials[0].params == {"x": 2.5}
    assert study.best_value == min(trial.value for trial in study.trials)
    assert study.best_trial.user_attrs["square"] == pytest.approx(study.best_params["x"] ** 2)
    assert all(trial.state is TrialState.COMPLETE and trial.duration for trial in study.trials)
    assert len(study.trials_dataframe()) == 12
    study.optimize(parabola, n_trials=3)
    assert [trial.number for trial in study.trials] == list(range(15))


def test_trials_are_compared_in_their_reports(create_study: Any) -> None:
    study = create_study(direction="maximize")
    study.optimize(learn, n_trials=12)
    assert study.run.policy == "asha"
    states = {trial.state for trial in study.trials}
    assert states == {TrialState.COMPLETE, TrialState.PRUNED}
    assert list(study.best_trial.intermediate_values) == [0, 1, 2, 3, 4]
    assert study.best_value == study.best_trial.intermediate_values[4]
    whole = create_study(direction="maximize", pruner=native.pruners.NopPruner())
    whole.optimize(learn, n_trials=3)
    assert whole.run.policy == "random"


def test_the_algorithm_can_be_named(create_study: Any) -> None:
    study = create_study()
    study.optimize(learn, n_trials=6, search="sha", max_iterations=4)
    assert study.run.policy in ("sha", "rubberband")


def test_results_are_in_the_storage_of_the_study(create_study: Any, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/study.db"
    create_study(study_name="kept", storage=storage).optimize(parabola, n_trials=4)
    assert len(native.load_study(study_name="kept", storage=storage).trials) == 4
    assert len(optuna.load_study(study_name="kept", storage=storage).trials) == 4


def test_a_study_whose_trials_all_fail_raises_the_first_error(create_study: Any) -> None:
    def broken(trial: Any) -> float:
        return float("nan") * float(trial.suggest_float("x", 0, 1))

    study = create_study()
    with pytest.raises(ExecutionError, match=r"all 2 trials of run .* failed"):
        study.optimize(broken, n_trials=2)
    assert {trial.state for trial in study.trials} == {TrialState.FAIL}


def test_what_a_study_does_not_carry_over_names_the_line(create_study: Any) -> None:
    with pytest.raises(JobError, match=r"change the call to create_study\(direction=...\)"):
        optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(JobError, match=r"remove callbacks=\[...\]"):
        create_study().optimize(parabola, n_trials=1, callbacks=[print])
    with pytest.raises(JobError, match=r"sampler is NSGAIISampler.*change it to TPESampler"):
        create_study(sampler=native.samplers.NSGAIISampler()).optimize(parabola, n_trials=1)
    with pytest.raises(JobError, match=r"study\.ask is not carried over"):
        create_study().ask()
    with pytest.raises(JobError, match="the objective is 3; expected a function"):
        optuna.trainable(3)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        optuna.no_such_name  # noqa: B018
