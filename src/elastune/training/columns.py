"""The data of a training as rows that can be picked: arrays, tensors, tuples and dicts of them, datasets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from elastune.errors import JobError
from elastune.wording import several

Rows = npt.NDArray[np.int64]

_EXPECTED = (
    "expected a tensor or an array, a tuple or a dict of them, or a torch Dataset that has a length "
    "(samples first: the first dimension counts them)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`pick` gives the samples of these numbers, also of none."""

    count: int
    pick: Callable[[Rows], Any]


def open_table(data: Any, device: str) -> Table:
    """`device` is where the picked tensors go."""
    if isinstance(data, tuple | Mapping):
        return _together(data, device)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        return Table(count=_length(data), pick=lambda rows: _pick_tensor(data, rows, device))
    if hasattr(data, "iloc"):
        return Table(count=len(data), pick=lambda rows: data.iloc[rows])
    if hasattr(data, "shape"):
        return Table(count=_length(data), pick=lambda rows: data[rows])
    if isinstance(data, list) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        hint = "; make a list of columns a tuple" if isinstance(data, list) else ""
        raise JobError(f"worker.batches got a {type(data).__name__}; {_EXPECTED}{hint}")
    return _dataset(data, device)


def _together(data: tuple[Any, ...] | Mapping[str, Any], device: str) -> Table:
    names = list(data) if isinstance(data, Mapping) else list(range(len(data)))
    tables = [open_table(data[name], device) for name in names]  # type: ignore[index]
    counts = {table.count for table in tables}
    if len(counts) != 1:
        lengths = several(f"{name!r}: {table.count}" for name, table in zip(names, tables, strict=True))
        raise JobError(f"worker.batches got columns of different lengths ({lengths}); {_EXPECTED}")

    def pick(rows: Rows) -> Any:
        picked = [table.pick(rows) for table in tables]
        if isinstance(data, Mapping):
            return dict(zip(names, picked, strict=True))
        return type(data)(*picked) if hasattr(data, "_fields") else tuple(picked)

    return Table(count=counts.pop(), pick=pick)


def _dataset(data: Any, device: str) -> Table:
    from torch.utils.data import default_collate  # noqa: PLC0415  whoever has a Dataset has torch

    def fetch(rows: list[int]) -> Any:
        many = getattr(data, "__getitems__", None)
        return default_collate(many(rows) if many else [data[row] for row in rows])

    def pick(rows: Rows) -> Any:
        # Nothing cannot be collated, but one sample can, and then be left out again.
        fetched = fetch(rows.tolist()) if rows.size else _each(fetch([0]), lambda column: column[:0])
        return _each(fetched, lambda column: _moved(column, device))

    return Table(count=len(data), pick=pick)


def _each(collated: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(collated, Mapping):
        return {key: _each(value, change) for key, value in collated.items()}
    if isinstance(collated, tuple) and hasattr(collated, "_fields"):
        return type(collated)(*(_each(value, change) for value in collated))
    if isinstance(collated, tuple | list) and not all(isinstance(value, str) for value in collated):
        return tuple(_each(value, change) for value in collated)
    return change(collated)


def _pick_tensor(tensor: Any, rows: Rows, device: str) -> Any:
    torch = sys.modules["torch"]
    return _moved(tensor[torch.from_numpy(rows).to(tensor.device)], device)


def _moved(column: Any, device: str) -> Any:
    return column.to(device) if hasattr(column, "to") else column


def _length(data: Any) -> int:
    if not data.shape:
        raise JobError(f"worker.batches got a {type(data).__name__} without dimensions; {_EXPECTED}")
    return int(data.shape[0])
