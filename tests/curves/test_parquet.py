"""Curves in Parquet files: one row per configuration and iteration."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from elastune.curves.opening import open_trainable
from elastune.curves.source import CurveFile
from elastune.curves.table import CurveTable
from elastune.errors import JobError
from elastune.model.distributions import Constant
from tests.curves.contract import assert_is_a_curve

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COLUMNS: dict[str, list[Any]] = {
    "config": ["b", "a", "a", "b", "a"],
    "iteration": [1, 2, 1, 2, 3],
    "lr": [0.2, 0.1, 0.1, 0.2, 0.1],
    "act": ["tanh", None, None, "tanh", None],
    "accuracy": [0.5, 0.2, 0.1, None, 0.3],
    "seconds": [4.0, 2.0, 2.0, 4.0, 2.0],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "curves.parquet"


def write(file: Path, **changes: object) -> Path:
    columns = {name: column for name, column in (COLUMNS | changes).items() if column is not ...}
    pq.write_table(pa.table(columns), file)
    return file


def opened(file: Path, metric: str | None = None, **options: Any) -> CurveTable:
    table = open_trainable(CurveFile(path=str(file), **options), metric=metric)
    assert isinstance(table, CurveTable)
    return table


def test_rows_in_any_order_become_curves(file: Path) -> None:
    table = opened(write(file))
    assert table.metric == "accuracy"
    assert table.table == ({"lr": 0.2, "act": "tanh"}, {"lr": 0.1, "act": None})
    first, second = (table.curve(config, (0, 0)) for config in table.table)
    for curve in (first, second):
        assert_is_a_curve(table, curve)
    assert first.length == 2
    assert math.isnan(first.rows(2, 2)[0]["accuracy"])
    assert second.rows(1, 9) == [{"accuracy": 0.1}, {"accuracy": 0.2}, {"accuracy": 0.3}]
    assert second.seconds(1, 2) == [2.0, 2.0]
    profile = table.profile()
    assert profile is not None
    assert profile.iteration == Constant(3.0)
    assert profile.spread == pytest.approx(1 / 3)


def test_without_hyperparameters_the_configuration_is_its_id(file: Path) -> None:
    table = opened(write(file, lr=..., act=..., seconds=...))
    assert table.table == ({"config": "b"}, {"config": "a"})
    assert table.profile() is None


def test_the_metric_may_be_constant_when_the_job_names_it(file: Path) -> None:
    table = opened(write(file, flat=[1, 2, 2, 1, 2]), "flat", parameters=("lr",))
    assert table.table == ({"lr": 0.2}, {"lr": 0.1})
    assert table.curve({"lr": 0.1}, (0, 0)).rows(1, 1) == [{"flat": 2.0}]


def test_columns_that_are_no_plain_values_are_ignored(file: Path) -> None:
    table = opened(write(file, history=[[1], [2], [3], [4], [5]], nothing=pa.nulls(5)))
    assert table.parameters == ("lr", "act")


def test_one_of_several_tasks_is_chosen(file: Path) -> None:
    write(file, task=["x", "y", "y", "x", "y"])
    assert opened(file, "accuracy", task="y").table == ({"lr": 0.1, "act": None},)
    with pytest.raises(JobError, match="task is missing; expected one of: x, y"):
        opened(file)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"config": ...}, {}, "there is no column 'config'; expected one row per config and iteration"),
        ({"iteration": [0, 1, 0, 1, 2]}, {},
         "configuration 'b' has iteration 0 where 1 is due; expected 1, 2, 3, ... in each"),
        ({"iteration": [1, 2, 2, 2, 3]}, {}, "configuration 'a' has iteration 2 where 1 is due"),
        ({"iteration": ["1", "2", "1", "2", "3"]}, {}, "iteration is of type string; expected whole numbers"),
        ({}, {"metric": "acc"}, "metric is 'acc'; expected one of the curves: accuracy; did you mean"),
        ({"loss": [1, 2, 3, 4, 5]}, {}, "metric is missing; expected one of the curves: accuracy, loss"),
        ({"seconds": [1.0, 1.0, 1.0, -1.0, 1.0]}, {},
         "seconds of configuration 'b' is -1; expected seconds, 0 or more"),
        ({}, {"task": "x"}, "task is 'x', but there is no column 'task'"),
        ({}, {"length": "x"}, "length goes with .npz files; here a curve ends with its last row"),
        ({}, {"parameters": ("accuracy",)}, "parameters has 'accuracy'; expected some of: lr, act"),
        ({name: pa.array([], pa.int64()) for name in COLUMNS}, {}, "there are no rows in it"),
    ],
)  # fmt: skip
def test_a_file_that_breaks_the_rules_is_named(
    file: Path, changes: dict[str, object], options: dict[str, Any], message: str
) -> None:
    write(file, **changes)
    with pytest.raises(JobError) as caught:
        opened(file, **options)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


def test_a_file_that_is_not_parquet_is_refused(file: Path) -> None:
    with pytest.raises(JobError, match="there is no such file; expected a file of curves"):
        opened(file)
    file.write_bytes(b"hello")
    with pytest.raises(JobError, match="cannot be read as Parquet: "):
        opened(file)


def test_without_pyarrow_the_error_says_what_to_install(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(JobError, match=r"needs pyarrow; pip install 'elastune\[parquet\]'"):
        opened(file)
