"""Functions of the user as trainables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastune.curves.opening import open_trainable
from elastune.curves.source import Curve
from elastune.errors import JobError
from tests.curves.contract import assert_is_a_curve


def growing(config: Mapping[str, Any], iteration: int) -> object:
    return config["lr"] * iteration


def three_epochs(config: Mapping[str, Any]) -> Iterator[object]:
    for epoch in range(3):
        yield {"accuracy": np.float32(epoch), "note": "text", "loss": 1}


def curve_of(function: Any, **config: Any) -> Curve:
    return open_trainable(function, metric="accuracy").curve(config, (0, 0))


def test_a_function_gives_the_metric_of_one_iteration() -> None:
    trainable = open_trainable(growing, metric="accuracy")
    curve = trainable.curve({"lr": 2}, (0, 0))
    assert_is_a_curve(trainable, curve)
    assert curve.rows(2, 3) == [{"accuracy": 4.0}, {"accuracy": 6.0}]
    assert curve.length is None
    assert (trainable.mode, trainable.space, trainable.table, trainable.profile()) == (None, None, None, None)


def test_a_generator_is_finished_when_it_returns() -> None:
    trainable = open_trainable(three_epochs, metric="accuracy")
    assert trainable.curve({}, (0, 0)).length is None
    curve = trainable.curve({}, (0, 0))
    assert curve.rows(1, 2) == [{"accuracy": 0.0, "loss": 1.0}, {"accuracy": 1.0, "loss": 1.0}]
    assert len(curve.rows(2, 10)) == 2
    assert curve.length == 3
    assert_is_a_curve(trainable, curve)


def test_every_curve_has_a_generator_and_a_configuration_of_its_own() -> None:
    def popping(config: dict[str, Any]) -> Iterator[float]:
        yield config.pop("lr")

    trainable = open_trainable(popping, metric="accuracy")
    config = {"lr": 5.0}
    assert [trainable.curve(config, (0, trial)).rows(1, 1)[0]["accuracy"] for trial in (0, 1)] == [5.0, 5.0]


def test_an_exception_of_the_user_comes_through_and_a_retry_starts_again() -> None:
    starts: list[int] = []

    def crashing_once(config: Mapping[str, Any]) -> Iterator[float]:
        starts.append(1)
        yield 1.0
        yield 2.0
        if len(starts) == 1:
            raise RuntimeError("out of memory")
        yield 3.0

    curve = curve_of(crashing_once)
    with pytest.raises(RuntimeError, match="out of memory"):
        curve.rows(1, 3)
    assert [row["accuracy"] for row in curve.rows(1, 4)] == [1.0, 2.0, 3.0]
    assert curve.length == 3

    def crashing(config: Mapping[str, Any], iteration: int) -> float:
        return 1 / (iteration - 2)

    with pytest.raises(ZeroDivisionError):
        curve_of(crashing).rows(1, 3)
    assert curve_of(crashing).rows(1, 1) == [{"accuracy": -1.0}]


@pytest.mark.parametrize("returned", [None, "x", {"loss": 1.0}, {"accuracy": "high"}])
def test_what_is_no_metric_is_refused(returned: object) -> None:
    with pytest.raises(JobError, match="expected a number, or a mapping with the number 'accuracy'"):
        curve_of(lambda config, iteration: returned).rows(1, 1)


def test_an_object_that_can_be_called_is_a_function_too() -> None:
    class Model:
        def __call__(self, config: Mapping[str, Any]) -> Iterator[float]:
            yield 7.0

    curve = curve_of(Model())
    assert curve.rows(1, 5) == [{"accuracy": 7.0}]
    assert curve.length == 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (dict, "dict: this is a class; expected a function f(config, iteration), or a generator function"),
        (lambda config: 1.0, "a function f(config) without a yield, which returns its metrics once"),
        (lambda: (yield 1.0), "cannot be called as f(config): too many positional arguments"),
    ],
)
def test_a_function_with_other_arguments_is_refused_before_it_is_called(function: Any, message: str) -> None:
    with pytest.raises(JobError) as caught:
        open_trainable(function, metric="accuracy")
    assert message in str(caught.value)


def test_a_function_needs_the_name_of_its_metric() -> None:
    with pytest.raises(JobError, match="metric is missing; expected the name of what growing returns"):
        open_trainable(growing)


MODULE = """
from dataclasses import dataclass
import beside_the_file

@dataclass
class State:
    lr: float

def train(config, iteration):
    return beside_the_file.FACTOR * State(config["lr"]).lr

limit = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_training.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "beside_the_file.py").write_text("FACTOR = 10", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_function_is_found_in_a_file_and_in_a_module(folder: Path) -> None:
    for reference in ("my_training.py:train", f"{folder}/my_training.py:train", "my_training:train"):
        trainable = open_trainable(reference, folder=folder, metric="accuracy")
        assert trainable.curve({"lr": 0.5}, (0, 0)).rows(1, 1) == [{"accuracy": 5.0}]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere.py:train", "nowhere.py: there is no such file; expected the Python file of the trainable"),
        ("no_such_module:train", "no_such_module: importing it failed with ModuleNotFoundError: No module"),
        ("my_training.py:trian",
         "there is no 'trian'; callable there: dataclass, State, train; did you mean 'train'?"),
        ("my_training.py:limit", "my_training.py:limit: this is int and cannot be called; expected a"),
        ("my_training.py:State", "my_training.py:State: this is a class; expected a function"),
        ("broken.py:train", "broken.py: importing it failed with SyntaxError"),
        ("synthetic:hypershed", "did you mean 'synthetic:hypersched'?"),
        ("resnet", "trainable is 'resnet'; expected synthetic:hypersched, a file of curves"),
    ],
)  # fmt: skip
def test_what_cannot_be_found_is_named_with_what_is_there(folder: Path, reference: str, message: str) -> None:
    (folder / "broken.py").write_text("def train(:", encoding="utf-8")
    with pytest.raises(JobError) as caught:
        open_trainable(reference, folder=folder, metric="accuracy")
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5), np.array(0.5), np.int64(1), True, 0.5])
def test_scalars_of_numpy_are_numbers(value: object) -> None:
    for given in (value, {"accuracy": value, "confusion": np.eye(3), "names": ["a"]}):
        (row,) = curve_of(lambda config, iteration, given=given: given).rows(1, 1)
        assert list(row) == ["accuracy"]
        assert type(row["accuracy"]) is float


@pytest.mark.parametrize("value", [np.array([0.5]), np.eye(2), np.array("0.5 s"), [0.5], "0.5", None])
def test_arrays_lists_and_texts_are_no_numbers(value: object) -> None:
    for given in (value, {"accuracy": value}):
        with pytest.raises(JobError, match=r"expected a number, or a mapping with the number 'accuracy'"):
            curve_of(lambda config, iteration, given=given: given).rows(1, 1)
