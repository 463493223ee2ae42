"""Functions and classes of Ray Tune train step by step and can be paused anywhere; mistakes are explained."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import tune as native
from ray.air import session as older

from elastune.adapters import ray_tune as tune
from elastune.checkpoints.encoding import decode
from elastune.errors import JobError
from elastune.training.groups import Solo
from elastune.training.recipe import open_recipe
from elastune.training.unsaved import is_no_model
from elastune.training.worker import make_worker
from tests.adapters.contract import train

EPOCHS = 6


def learn(config: Mapping[str, Any], module: Any, every: int) -> None:
    """A training as they are usually written: `every` so many epochs it has a checkpoint."""
    first, weight = 0, 0.0
    checkpoint = module.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = json.loads(Path(folder, "state", "weight.json").read_text())
        first, weight = saved["epoch"] + 1, saved["weight"]
    for epoch in range(first, EPOCHS):
        weight += random.random() * config["lr"]
        if (epoch + 1) % every:
            module.report({"weight": weight})
            continue
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state").mkdir()
            Path(folder, "state", "weight.json").write_text(json.dumps({"epoch": epoch, "weight": weight}))
            module.report({"weight": weight}, checkpoint=native.Checkpoint.from_directory(folder))


class Counting(native.Trainable):  # type: ignore[misc]
    """The class form, with a checkpoint as a dict."""

    def setup(self, config: Mapping[str, Any]) -> None:
        self.sum, self.rate = 0.0, config["rate"]

    def step(self) -> dict[str, Any]:
        self.sum += random.random() * self.rate
        return {"sum": self.sum, "turn": self.iteration, "done": self.iteration == 4}

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        return {"sum": self.sum}

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.sum = checkpoint["sum"]


class InFolder(Counting):
    """The class form, with a checkpoint in a folder."""

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "sum.txt").write_text(repr(self.sum))

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.sum = float(Path(checkpoint, "sum.txt").read_text())


@pytest.mark.parametrize("pause", range(1, EPOCHS))
@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_pause_changes_nothing_wherever_the_checkpoints_are(every: int, pause: int) -> None:
    user = tune.trainable(lambda config: learn(config, tune, every))
    rows, end = train(user, {"lr": 0.1}, 1, EPOCHS + 1)
    assert len(rows) == EPOCHS
    _, half = train(user, {"lr": 0.1}, 1, pause)
    again, same = train(user, {"lr": 0.1}, pause + 1, EPOCHS + 1, half)
    assert again == rows[pause:]
    assert same == end


@pytest.mark.parametrize("user", [Counting, InFolder])
def test_a_class_goes_on_from_its_checkpoint_and_knows_its_iteration(user: type) -> None:
    adapted = tune.trainable(user)
    rows, end = train(adapted, {"rate": 0.5}, 1, 9)
    assert [row["turn"] for row in rows] == [0, 1, 2, 3, 4]
    _, half = train(adapted, {"rate": 0.5}, 1, 2)
    again, same = train(adapted, {"rate": 0.5}, 3, 9, half)
    assert again == rows[2:]
    assert same == end


@pytest.mark.filterwarnings("ignore:`ray.train.get_checkpoint` should be switched")
@pytest.mark.filterwarnings("ignore:`ray.train.report` should be switched")
@pytest.mark.parametrize("module", [native, older], ids=["ray.tune", "ray.air.session"])
def test_functions_that_call_ray_itself_report_to_elastune(module: Any) -> None:
    rows, _ = train(tune.trainable(lambda config: learn(config, module, 1)), {"lr": 1.0}, 1, EPOCHS)
    assert rows == train(tune.trainable(lambda config: learn(config, tune, 1)), {"lr": 1.0}, 1, EPOCHS)[0]


def test_without_a_checkpoint_the_state_is_a_record_and_training_begins_again() -> None:
    user = tune.trainable(lambda config: learn(config, tune, EPOCHS + 1))
    rows, _ = train(user, {"lr": 0.1}, 1, EPOCHS)
    _, half = train(user, {"lr": 0.1}, 1, 3)
    record = decode(half)
    assert is_no_model(record)
    assert record["metrics"] == rows[2]
    assert "has reported no checkpoint" in record["why"]


def test_it_can_be_sent_to_workers() -> None:
    user = tune.trainable(lambda config: learn(config, tune, 2))
    assert train(cloudpickle.loads(cloudpickle.dumps(user)), {"lr": 1}, 1, 2) == train(user, {"lr": 1}, 1, 2)


def returned(config: Mapping[str, Any]) -> dict[str, float]:
    return {"loss": config["x"]}


def a_number(config: Mapping[str, Any]) -> float:
    return float(config["x"])


def yielded(config: Mapping[str, Any]) -> Iterator[dict[str, float]]:
    yield {"loss": config["x"]}
    yield {"loss": config["x"] / 2}


@pytest.mark.parametrize(
    ("user", "rows"),
    [
        (returned, [{"loss": 4.0}]),
        (a_number, [{"_metric": 4.0}]),
        (yielded, [{"loss": 4.0}, {"loss": 2.0}]),
    ],
)
def test_what_a_function_returns_or_yields_is_a_report(user: Any, rows: list[dict[str, float]]) -> None:
    assert train(tune.trainable(user), {"x": 4.0}, 1, 5)[0] == rows


@pytest.mark.parametrize(
    ("stop", "count"),
    [
        ({"weight": 3.0}, 3),
        ({"weight": 100.0, "time_total_s": 0.0}, 1),
        (lambda trial, result: result["training_iteration"] >= 2, 2),
    ],
)
def test_a_trial_ends_when_it_reaches_its_stop(stop: Any, count: int) -> None:
    def grow(config: Mapping[str, Any]) -> None:
        for epoch in range(1, 6):
            tune.report({"weight": epoch, "nested": {"deep": epoch}})

    rows, _ = train(tune.trainable(grow, stop=stop), {}, 1, 9)
    assert len(rows) == count
    assert rows[0]["nested/deep"] == 1.0


def test_a_trial_knows_itself_and_has_a_folder_of_its_own() -> None:
    seen: dict[str, Any] = {}

    def look(config: Mapping[str, Any]) -> None:
        context = tune.get_context()
        seen.update(name=context.get_trial_name(), id=context.get_trial_id(), folder=context.get_trial_dir())
        seen["native"] = native.get_context().get_trial_id()
        seen["resources"] = context.get_trial_resources()
        seen["experiment"] = context.get_experiment_name()
        Path("notes.txt").write_text("in its own folder")
        seen["is_there"] = Path(seen["folder"], "notes.txt").exists()
        tune.report({"x": 1})
        seen["cleaned"] = True

    before = Path.cwd()
    worker = make_worker(Solo(), seed=1, trial=12)
    training = open_recipe(tune.trainable(look), name="look").start({}, worker, None)
    worker.iteration = 1
    training.step()
    assert Path.cwd() == before
    training.close()
    assert seen.pop("folder")
    assert seen == {
        "name": "look_00012",
        "id": "00012",
        "native": "00012",
        "experiment": "look",
        "resources": {"CPU": 1.0},
        "is_there": True,
    }


def test_the_end_of_a_trial_runs_what_the_function_has_to_clean_up(tmp_path: Path) -> None:
    def careful(config: Mapping[str, Any]) -> None:
        try:
            for _ in range(9):
                try:
                    tune.report({"x": 1})
                except Exception:  # noqa: BLE001
                    (tmp_path / "caught").touch()
        finally:
            (tmp_path / "cleaned").touch()

    train(tune.trainable(careful), {}, 1, 2)
    assert [each.name for each in tmp_path.iterdir()] == ["cleaned"]


def test_parameters_are_sent_with_the_trainable() -> None:
    def add(config: Mapping[str, Any], data: list[int]) -> dict[str, int]:
        return {"sum": config["x"] + sum(data)}

    class Adding(native.Trainable):  # type: ignore[misc]
        def setup(self, config: Mapping[str, Any], data: list[int]) -> None:
            self.sum = config["x"] + sum(data)

        def step(self) -> dict[str, int]:
            return {"sum": self.sum}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, int]:
            return {}

    for user in (add, Adding):
        bound = tune.trainable(tune.with_parameters(user, data=[1, 2]))
        assert train(bound, {"x": 4}, 1, 1)[0] == [{"sum": 7.0}]


def test_a_configuration_is_nested_again() -> None:
    def tell(config: Mapping[str, Any]) -> dict[str, float]:
        assert config == {"model": {"layers": [64, 64], "lr": 0.1}, "act": max, "fixed": {"data": (1, 2)}}
        return {"x": 1}

    space = {
        "model": {"layers": tune.choice([[64, 64], [128]]), "lr": tune.uniform(0, 1)},
        "act": tune.grid_search([max, min]),
        "fixed": {"data": (1, 2)},
    }
    config = {"model/layers": "[64, 64]", "model/lr": 0.1, "act": "max"}
    train(tune.trainable(tell, space), config, 1, 1)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (3, "the trainable is 3; expected a function train"),
        (dict, "dict is no trainable of Ray Tune; expected a function"),
        (lambda: None, "cannot be called as train"),
        (native.with_parameters(returned, x=1), "change ray.tune.with_parameters to elastune"),
    ],
)
def test_what_is_no_trainable_of_ray_tune_is_refused(user: Any, message: str) -> None:
    with pytest.raises(JobError, match=message):
        tune.trainable(user)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (lambda config: None, "returned without a report; expected tune.report"),
        (lambda config: "fine", "returned 'fine'; expected metrics or one number"),
        (lambda config: tune.report(config["x"]), "report got 3; expected a mapping"),
        (lambda config: tune.report({}, checkpoint="here"), r"expected Checkpoint.from_directory\(folder\)"),
        (lambda config: 1 / 0, "division by zero"),
    ],
)
def test_what_goes_wrong_in_a_function_is_raised_in_its_step(user: Any, message: str) -> None:
    with pytest.raises((JobError, ZeroDivisionError), match=message):
        train(tune.trainable(user), {"x": 3}, 1, 1)


def test_a_stop_that_is_never_reported_names_what_is() -> None:
    with pytest.raises(JobError, match=r"stop has 'acc', which is not reported; expected one of: .*loss"):
        train(tune.trainable(returned, stop={"acc": 1}), {"x": 1}, 1, 1)


def test_outside_of_a_trial_there_is_nothing_to_report_to() -> None:
    with pytest.raises(JobError, match="report is for a function that a Tuner trains"):
        tune.report({"x": 1})
