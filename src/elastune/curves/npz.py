"""Curves in a NumPy archive, by the shape of the arrays (n configurations, t iterations):

- (n, t) arrays of numbers are metrics, except `time` (seconds since the start) and `seconds` (per iteration).
- (tasks, n, t) is the same for several tasks, named by `tasks`; one of them is chosen.
- hyperparameters are the columns of `hp` (n, k), named by `hp_names`; without `hp` the arrays of n values,
  except outcomes of the training: `length`, `nan_...` and `..._run`. If there are none, the number of the row
  is the configuration.
- a curve is as long as the array `length`, `epochs` or `iterations` says, if it holds whole numbers up to t;
  else it ends after the last iteration with a time; else it has t iterations. NaN before that: the training
  diverged. (NaN alone does not distinguish "diverged" from "not run": files use it for both.)
- everything else in the file is ignored.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path

import numpy as np

from elastune.curves.source import CurveFile
from elastune.curves.table import Array, Recording, choose_metric, choose_parameters, choose_task, to_scalars
from elastune.errors import JobError

Arrays = dict[str, Array]

_TIMES = ("time", "seconds")
_LENGTHS = ("length", "epochs", "iterations")
_NUMBERS = "iuf"
_OUTCOME = re.compile(r"length|nan_.*|.*_run", re.DOTALL)


def read_npz(file: CurveFile, wanted: str | None) -> Recording:
    """`wanted`: the metric."""
    arrays = _load(file.path)
    metrics = [
        name for name, array in arrays.items() if array.ndim in (2, 3) and array.dtype.kind in _NUMBERS
    ]
    metric = choose_metric([name for name in metrics if name not in ("hp", *_TIMES)], wanted)
    arrays = _of_task(arrays, arrays[metric].shape, file.task)
    curves = arrays[metric].astype(np.float64)
    count, width = curves.shape
    columns = _columns(arrays, count)
    parameters = choose_parameters(columns, file.parameters)
    values = [to_scalars(columns[name]) for name in parameters] or [list(range(count))]
    seconds = _seconds(arrays, (count, width))
    lengths = _given_lengths(_one_each(arrays, count) | columns, file.length, width)
    if lengths is None:
        lengths = [width] * count if seconds is None else _timed_lengths(seconds)
    return Recording(
        metric=metric,
        parameters=tuple(parameters) or ("config",),
        values=list(zip(*values, strict=True)),
        curves=_cut(curves, lengths),
        seconds=None if seconds is None else _cut(seconds, lengths),
    )


def _load(path: str) -> Arrays:
    arrays: Arrays = {}
    try:
        # Opened here because NumPy leaves a broken archive open.
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            for name in archive.files:
                try:
                    arrays[name] = archive[name]
                except ValueError:  # an array of Python objects, which only pickle can read
                    continue
    except FileNotFoundError:
        raise JobError("there is no such file; expected a file of curves") from None
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        raise JobError("cannot be read as a NumPy archive; expected what numpy.savez writes") from None
    return {name: array for name, array in arrays.items() if array.dtype.kind in _NUMBERS + "bU"}


def _of_task(arrays: Arrays, shape: tuple[int, ...], wanted: str | int | None) -> Arrays:
    """The arrays, those by task only for the chosen task."""
    if len(shape) == 2:
        if wanted is not None:
            raise JobError(f"task is {wanted!r}, but the curves are of one task only; leave it out")
        return arrays
    names = arrays["tasks"].tolist() if "tasks" in arrays else list(range(shape[0]))
    if len(names) != shape[0]:
        raise JobError(f"`tasks` names {len(names)} tasks, but the curves are of {shape[0]}")
    task = names.index(choose_task(names, wanted))
    return {
        name: array[task] if array.ndim == 3 and len(array) == shape[0] else array
        for name, array in arrays.items()
    }


def _one_each(arrays: Arrays, count: int) -> Arrays:
    """The arrays with one value for each configuration."""
    known = ("tasks", "hp_names", *_TIMES)
    return {name: array for name, array in arrays.items() if array.shape == (count,) and name not in known}


def _columns(arrays: Arrays, count: int) -> Arrays:
    """The hyperparameters."""
    if "hp" not in arrays:
        found = _one_each(arrays, count).items()
        return {name: array for name, array in found if not _OUTCOME.fullmatch(name)}
    hp = arrays["hp"]
    if hp.ndim != 2 or len(hp) != count:
        raise JobError(f"`hp` has the shape {hp.shape}; expected one row for each of {count} configurations")
    names = arrays["hp_names"].tolist() if "hp_names" in arrays else [f"hp{i}" for i in range(hp.shape[1])]
    if len(names) != hp.shape[1]:
        raise JobError(f"`hp_names` has {len(names)} names for the {hp.shape[1]} columns of `hp`")
    return {str(name): hp[:, position] for position, name in enumerate(names)}


def _seconds(arrays: Arrays, shape: tuple[int, int]) -> Array | None:
    """Seconds per iteration; NaN where nothing was measured."""
    name = next((name for name in reversed(_TIMES) if name in arrays), None)
    if name is None:
        return None
    times = arrays[name].astype(np.float64)
    if times.shape != shape:
        raise JobError(f"`{name}` has the shape {times.shape}; expected that of the curves, {shape}")
    seconds = times if name == "seconds" else np.diff(times, axis=1, prepend=0.0)
    wrong = np.argwhere(~(seconds >= 0.0) & ~np.isnan(seconds) | np.isinf(seconds))
    if wrong.size:
        row, column = wrong[0].tolist()
        found = f"{times[row, column]:g} at iteration {column + 1}"
        expected = ", 0 or more" if name == "seconds" else " since the start, never less than before"
        raise JobError(f"`{name}` of configuration {row} is {found}; expected seconds{expected}")
    return seconds


def _given_lengths(columns: Arrays, wanted: str | None, width: int) -> list[int] | None:
    if wanted is not None and (wanted not in columns or columns[wanted].dtype.kind not in _NUMBERS):
        raise JobError(f"length is {wanted!r}, which holds no number for each configuration")
    for name in (wanted,) if wanted else _LENGTHS:
        given = columns.get(name)
        if given is None or given.dtype.kind not in _NUMBERS:
            continue
        if np.all((given >= 0) & (given <= width) & (given == np.floor(given))):
            return [int(length) for length in given]
        if wanted:
            raise JobError(f"`{name}` goes from {given.min():g} to {given.max():g}; expected 0 to {width}")
    return None


def _timed_lengths(seconds: Array) -> list[int]:
    timed = ~np.isnan(seconds)
    last = seconds.shape[1] - np.argmax(timed[:, ::-1], axis=1)
    return [int(length) for length in np.where(timed.any(axis=1), last, 0)]


def _cut(rows: Array, lengths: list[int]) -> list[list[float]]:
    return [row[:length].tolist() for row, length in zip(rows, lengths, strict=True)]
