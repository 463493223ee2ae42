"""Curves in NumPy archives: the rules of the layout, and the recordings of others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastune.curves.opening import open_trainable
from elastune.curves.source import CurveFile
from elastune.curves.table import CurveTable
from elastune.errors import JobError
from elastune.model.configuration import Configuration
from elastune.model.distributions import Constant, LogNormal
from tests.curves.contract import assert_is_a_curve

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "curves"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the recorded curves are not beside the project")
NAN = math.nan
ONES = np.ones((2, 2))


def opened(path: Path, metric: str | None = None, **options: Any) -> CurveTable:
    table = open_trainable(CurveFile(path=str(path), **options), metric=metric)
    assert isinstance(table, CurveTable)
    return table


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "curves.npz"


def rows(table: CurveTable, position: int) -> list[float]:
    curve = table.curve(table.table[position], (0, 0))
    assert_is_a_curve(table, curve)
    return [row[table.metric] for row in curve.rows(1, curve.length)]


def test_arrays_of_n_values_are_hyperparameters_and_of_n_by_t_are_metrics(file: Path) -> None:
    np.savez(
        file, lr=[0.1, 0.2], act=["relu", "tanh"], bias=[True, False], width=[8, 16],
        accuracy=[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], note="text", other=np.zeros((4, 4, 4, 4)),
        odd=np.array([{}, None], dtype=object),
    )  # fmt: skip
    table = opened(file)
    assert table.metric == "accuracy"
    assert table.table == (
        {"lr": 0.1, "act": "relu", "bias": True, "width": 8},
        {"lr": 0.2, "act": "tanh", "bias": False, "width": 16},
    )
    first: Configuration = opened(file).table[0]
    assert [type(value) for value in first.values()] == [float, str, bool, int]
    assert rows(table, 1) == [0.4, 0.5, 0.6]
    assert table.curve({"lr": 0.2, "act": "tanh", "bias": False, "width": 16.0, "k": 3}, (0, 0)).length == 3
    assert table.profile() is None


def test_hyperparameters_may_be_the_columns_of_hp(file: Path) -> None:
    np.savez(file, hp=[[1.0, 2.0], [3.0, NAN]], hp_names=["a", "b"], loss=np.ones((2, 3)), seedling=[4, 5])
    table = opened(file)
    assert table.table == ({"a": 1.0, "b": 2.0}, {"a": 3.0, "b": None})
    assert rows(table, 1) == [1.0, 1.0, 1.0]


def test_without_hyperparameters_the_number_of_the_row_is_the_configuration(file: Path) -> None:
    np.savez(file, score=[[1.0], [2.0]])
    assert opened(file).table == ({"config": 0}, {"config": 1})


def test_nan_is_delivered_where_nothing_says_that_the_curve_has_ended(file: Path) -> None:
    np.savez(file, lr=[1.0, 2.0], loss=[[3.0, NAN, NAN], [3.0, 2.0, 1.0]])
    diverged = rows(opened(file), 0)
    assert len(diverged) == 3
    assert np.isnan(diverged).tolist() == [False, True, True]


@pytest.mark.parametrize("name", ["length", "epochs", "iterations"])
def test_an_array_of_lengths_tells_ended_from_diverged(file: Path, name: str) -> None:
    loss = [[3.0, 2.0, NAN], [3.0, NAN, NAN], [3.0, 2.0, 1.0], [NAN, NAN, NAN]]
    arrays: dict[str, Any] = {
        "lr": [1, 2, 3, 4],
        "loss": loss,
        "nan_loss": [0, 1, 0, 1],
        "n_run": [2, 1, 3, 0],
    }
    np.savez(file, **({name: [2.0, 2.0, 3.0, 0.0]} | arrays))
    table = opened(file)
    assert len(table.table) == 3  # the fourth was never run
    assert [len(rows(table, position)) for position in range(3)] == [2, 2, 3]
    assert math.isnan(rows(table, 1)[1])
    assert table.parameters == (("lr",) if name == "length" else (name, "lr"))


def test_without_lengths_a_curve_ends_with_its_last_time(file: Path) -> None:
    np.savez(
        file, lr=[1.0, 2.0, 3.0], loss=[[3.0, 2.0, NAN], [3.0, NAN, NAN], [NAN, NAN, NAN]],
        time=[[10.0, 30.0, NAN], [5.0, 10.0, 15.0], [NAN, NAN, NAN]],
    )  # fmt: skip
    table = opened(file)
    assert [len(rows(table, position)) for position in range(2)] == [2, 3]
    assert table.curve(table.table[0], (0, 0)).seconds(1, 2) == [10.0, 20.0]
    assert len(table.table) == 2


def test_an_iteration_that_was_not_measured_takes_as_long_as_the_others(file: Path) -> None:
    np.savez(
        file, lr=[1.0, 2.0], epochs=[3, 3], loss=[[1.0, NAN, NAN], [NAN, NAN, NAN]],
        seconds=[[4.0, NAN, NAN], [NAN, NAN, NAN]],
    )  # fmt: skip
    table = opened(file)
    for config in table.table:
        assert table.curve(config, (0, 0)).seconds(1, 3) == [4.0, 4.0, 4.0]


def test_the_profile_has_the_mean_the_noise_within_and_the_spread_between(file: Path) -> None:
    np.savez(file, lr=[1.0, 2.0], loss=np.ones((2, 4)), seconds=[[1.0, 3.0, 1.0, 3.0], [6.0] * 4])
    profile = opened(file).profile()
    assert profile is not None
    assert isinstance(profile.iteration, LogNormal)
    assert profile.iteration.mean == 4.0
    assert profile.iteration.sd == pytest.approx(4.0 * math.sqrt((4 * (4 * 0.25) / 3) / 8))
    assert profile.spread == 0.5
    np.savez(file, lr=[1.0, 2.0], loss=np.ones((2, 4)), seconds=np.full((2, 4), 5.0))
    steady = opened(file).profile()
    assert steady is not None
    assert (steady.iteration, steady.spread) == (Constant(5.0), 0.0)


def test_one_of_several_tasks_is_chosen_by_name(file: Path) -> None:
    loss = np.arange(12.0).reshape(2, 3, 2)
    np.savez(file, loss=loss, tasks=["text", "image"], lr=[1.0, 2.0, 3.0], seconds=np.ones((3, 2)))
    assert rows(opened(file, task="image"), 0) == [6.0, 7.0]
    with pytest.raises(JobError, match=r"curves\.npz: task is missing; expected one of: text, image"):
        opened(file)
    with pytest.raises(
        JobError, match=r"task is 'imag'; expected one of: text, image; did you mean 'image'\?"
    ):
        opened(file, task="imag")
    np.savez(file, loss=loss, lr=[1.0, 2.0, 3.0])
    assert rows(opened(file, task=1), 0) == [6.0, 7.0]


def test_of_a_configuration_recorded_twice_the_seed_chooses(file: Path) -> None:
    np.savez(file, lr=[1.0, 1.0, 2.0], loss=[[1.0], [2.0], [3.0]])
    table = opened(file)
    assert len(table.table) == 2
    found = {table.curve({"lr": 1.0}, (0, trial)).rows(1, 1)[0]["loss"] for trial in range(2)}
    assert found == {1.0, 2.0}


def test_a_configuration_that_was_not_recorded_is_refused(file: Path) -> None:
    np.savez(file, lr=[1.0, 2.0], loss=[[1.0], [2.0]])
    table = opened(file)
    for config in ({"lr": 1.5}, {}, {"lr": [1]}):
        with pytest.raises(JobError, match=r"is none of its 2 configurations; take them from the table"):
            table.curve(config, (0, 0))


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"a": ONES, "b": ONES}, {}, "metric is missing; expected one of the curves: a, b"),
        ({"loss": ONES}, {"metric": "los"}, "metric is 'los'; expected one of the curves: loss; did"),
        ({"lr": [1.0]}, {}, "there are no curves in it"),
        ({"loss": ONES}, {"task": "x"}, "task is 'x', but the curves are of one task only"),
        ({"loss": np.ones((2, 2, 2)), "tasks": ["x"]}, {"task": "x"},
         "`tasks` names 1 tasks, but the curves are of 2"),
        ({"loss": ONES, "hp": np.ones((3, 1))}, {},
         "`hp` has the shape (3, 1); expected one row for each of 2 configurations"),
        ({"loss": ONES, "hp": ONES, "hp_names": ["a"]}, {}, "`hp_names` has 1 names for the 2 columns"),
        ({"loss": ONES, "time": np.ones((2, 3))}, {},
         "`time` has the shape (2, 3); expected that of the curves, (2, 2)"),
        ({"loss": ONES, "time": [[1.0, 2.0], [2.0, 1.0]]}, {},
         "`time` of configuration 1 is 1 at iteration 2; expected seconds since the start, never less"),
        ({"loss": ONES, "seconds": -ONES}, {}, "is -1 at iteration 1; expected seconds, 0 or more"),
        ({"loss": ONES, "n": [3, 5]}, {"length": "n"}, "`n` goes from 3 to 5; expected 0 to 2"),
        ({"loss": ONES}, {"length": "n"}, "length is 'n', which holds no number"),
        ({"loss": ONES, "lr": [1, 2]}, {"parameters": ("l",)}, "parameters has 'l'; expected some of: lr"),
        ({"loss": ONES, "length": [0, 0]}, {}, "no configuration has an iteration of 'loss'"),
    ],
)  # fmt: skip
def test_a_file_that_breaks_the_rules_is_named(
    file: Path, arrays: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    np.savez(file, **arrays)
    with pytest.raises(JobError) as caught:
        opened(file, **options)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04broken"])
def test_a_file_that_is_no_archive_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(JobError, match="cannot be read as a NumPy archive; expected what"):
        opened(file)
    with pytest.raises(JobError, match=r"nowhere\.npz: there is no such file; expected a file of curves"):
        opened(file.parent / "nowhere.npz")
    with pytest.raises(JobError, match=r"curves\.csv: not a file of curves; expected the ending"):
        opened(file.parent / "curves.csv")


@needs_data
def test_alexnet_on_imagenet_has_its_scheduled_lengths_and_seconds() -> None:
    table = opened(DATA / "alexnet_imagenet.npz", "top_1")
    assert len(table.table) == 512
    assert "n_epochs_run" not in table.parameters
    curves = [table.curve(config, (0, 0)) for config in table.table]
    assert [curve.length for curve in curves] == [config["epochs"] for config in table.table]
    assert sum(any(math.isnan(value) for value in curve.values) for curve in curves) == 147
    profile = table.profile()
    assert profile is not None
    assert profile.iteration.mean == pytest.approx(315.2, abs=0.1)
    assert profile.spread == pytest.approx(0.181, abs=0.001)


@needs_data
def test_taskset_has_diverged_trainings_and_no_seconds() -> None:
    task = "FixedTextRNNClassification_imdb_patch32_GRU128_bs128"
    table = opened(DATA / "taskset_imdb_rnn.npz", "valid_loss", task=task)
    assert len(table.table) == 1000
    assert len(table.parameters) == 8
    curves = [table.curve(config, (0, 0)) for config in table.table]
    assert {curve.length for curve in curves} == {51}
    assert any(math.isnan(curve.values[-1]) for curve in curves)
    assert table.profile() is None
