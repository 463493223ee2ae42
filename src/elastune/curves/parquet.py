"""Curves in a Parquet file, one row per configuration and iteration, by the columns:

- `config` identifies the configuration (a number or text), `iteration` counts 1, 2, 3, ... in each.
- `seconds` (optional) is how long the iteration took on one slot.
- `task` (optional) identifies one of several tasks; one of them is chosen.
- of the other columns, those that are constant within every configuration are hyperparameters, and numbers
  that are not constant are metrics. Without hyperparameters, `config` itself is one.
- a curve ends with its last row. NaN or null in the metric: the training diverged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from elastune.curves.source import CurveFile
from elastune.curves.table import Array, Recording, choose_metric, choose_parameters, choose_task, to_scalars
from elastune.errors import JobError
from elastune.wording import seen, several

_KNOWN = ("config", "iteration", "seconds", "task")
_NUMBERS = ("int", "uint", "float", "double", "halffloat")
_WORDS = ("bool", "string", "large_string", "dictionary")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The file sorted by configuration and iteration; `starts`: the first row of each configuration."""

    columns: Any
    starts: Array
    sizes: Array

    def is_constant(self, name: str) -> bool:
        codes = _codes(self.columns.column(name))
        return bool(np.array_equal(codes, np.repeat(codes[self.starts], self.sizes)))

    def is_number(self, name: str) -> bool:
        return _kind(self.columns, name).startswith(_NUMBERS)

    def is_plain(self, name: str) -> bool:
        return _kind(self.columns, name).startswith((*_NUMBERS, *_WORDS))

    def numbers(self, name: str) -> Array:
        return np.asarray(self.columns.column(name).to_numpy(), dtype=np.float64)

    def by_configuration(self, numbers: Array) -> list[list[float]]:
        values = numbers.tolist()
        ends = (self.starts + self.sizes).tolist()
        return [values[start:end] for start, end in zip(self.starts.tolist(), ends, strict=True)]


def read_parquet(file: CurveFile, wanted: str | None) -> Recording:
    """`wanted`: the metric."""
    rows = _sorted(_load(file.path), file.task)
    if file.length is not None:
        raise JobError("length goes with .npz files; here a curve ends with its last row")
    others = [name for name in rows.columns.column_names if name not in _KNOWN and rows.is_plain(name)]
    constant = [name for name in others if name != wanted and rows.is_constant(name)]
    metric = choose_metric([name for name in others if name not in constant and rows.is_number(name)], wanted)
    parameters = choose_parameters(constant, file.parameters) or ["config"]
    firsts = rows.columns.take(rows.starts)
    values = [to_scalars(firsts.column(name).to_pylist()) for name in parameters]
    timed = "seconds" in rows.columns.column_names
    return Recording(
        metric=metric,
        parameters=tuple(parameters),
        values=list(zip(*values, strict=True)),
        curves=rows.by_configuration(rows.numbers(metric)),
        seconds=rows.by_configuration(_seconds(rows)) if timed else None,
    )


def _load(path: str) -> Any:
    try:
        import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415  an extra, slow to import
        import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise JobError("reading Parquet needs pyarrow; pip install 'elastune[parquet]'") from None
    try:
        return pq.read_table(path)
    except FileNotFoundError:
        raise JobError("there is no such file; expected a file of curves") from None
    except (pa.ArrowException, OSError) as error:
        raise JobError(f"cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _sorted(columns: Any, task: str | int | None) -> _Rows:
    for name in ("config", "iteration"):
        if name not in columns.column_names:
            layout = f"one row per config and iteration (it has {several(columns.column_names)})"
            raise JobError(f"there is no column {name!r}; expected {layout}")
    columns = _of_task(columns, task)
    if not columns.num_rows:
        raise JobError("there are no rows in it")
    if not _kind(columns, "iteration").startswith(_NUMBERS):
        raise JobError(f"iteration is of type {_kind(columns, 'iteration')}; expected whole numbers from 1")
    codes = _codes(columns.column("config"))
    iterations = columns.column("iteration").to_numpy()
    order = np.lexsort((iterations, codes))
    columns, codes, iterations = columns.take(order), codes[order], iterations[order]
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    sizes = np.diff(np.r_[starts, codes.size])
    expected = np.arange(codes.size) - np.repeat(starts, sizes) + 1
    if (wrong := np.flatnonzero(iterations != expected)).size:
        row = int(wrong[0])
        config = columns.column("config")[row].as_py()
        raise JobError(
            f"configuration {seen(config)} has iteration {iterations[row]:g} where {expected[row]} is due; "
            "expected 1, 2, 3, ... in each configuration, each once"
        )
    return _Rows(columns=columns, starts=starts, sizes=sizes)


def _of_task(columns: Any, wanted: str | int | None) -> Any:
    if "task" not in columns.column_names:
        if wanted is not None:
            raise JobError(f"task is {wanted!r}, but there is no column 'task'; leave it out")
        return columns
    codes = columns.column("task").combine_chunks().dictionary_encode()
    names = codes.dictionary.to_pylist()
    return columns.filter(codes.indices.to_numpy() == names.index(choose_task(names, wanted)))


def _seconds(rows: _Rows) -> Array:
    seconds = rows.numbers("seconds")
    wrong = np.flatnonzero(~(seconds >= 0.0) & ~np.isnan(seconds) | np.isinf(seconds))
    if wrong.size:
        config = rows.columns.column("config")[int(wrong[0])].as_py()
        found = f"{seconds[wrong[0]]:g}"
        raise JobError(f"seconds of configuration {seen(config)} is {found}; expected seconds, 0 or more")
    return seconds


def _kind(columns: Any, name: str) -> str:
    return str(columns.schema.field(name).type)


def _codes(column: Any) -> Array:
    """Equal numbers for equal values of any type, in the order of first appearance."""
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices.fill_null(-1).to_numpy())
