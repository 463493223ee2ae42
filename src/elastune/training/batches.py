"""Batches of a training: data as rows that can be picked, and each rank's share of each global batch.

Data are arrays, tensors, tuples and dicts of them, or datasets. One global order of the samples is cut into
batches. `Pass` is a loop over batches at one of them: the batch size that `worker.backward` needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from elastune.errors import JobError
from elastune.wording import seen, several

Rows = npt.NDArray[np.int64]

_EXPECTED = (
    "expected a tensor or an array, a tuple or a dict of them, or a torch Dataset that has a length "
    "(samples first: the first dimension counts them)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTable:
    """`pick` returns the samples of these numbers, which may be none."""

    count: int
    pick: Callable[[Rows], Any]


def open_table(data: Any, device: str) -> RowTable:
    """`device` is where the picked tensors go."""
    if isinstance(data, tuple | Mapping):
        return _together(data, device)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        return RowTable(count=_length(data), pick=lambda rows: _pick_tensor(data, rows, device))
    if hasattr(data, "iloc"):
        return RowTable(count=len(data), pick=lambda rows: data.iloc[rows])
    if hasattr(data, "shape"):
        return RowTable(count=_length(data), pick=lambda rows: data[rows])
    if isinstance(data, list) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        hint = "; make a list of columns a tuple" if isinstance(data, list) else ""
        raise JobError(f"worker.batches got a {type(data).__name__}; {_EXPECTED}{hint}")
    return _dataset(data, device)


def _together(data: tuple[Any, ...] | Mapping[str, Any], device: str) -> RowTable:
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

    return RowTable(count=counts.pop(), pick=pick)


def _dataset(data: Any, device: str) -> RowTable:
    from torch.utils.data import default_collate  # noqa: PLC0415  a Dataset implies torch

    def fetch(rows: list[int]) -> Any:
        many = getattr(data, "__getitems__", None)
        return default_collate(many(rows) if many else [data[row] for row in rows])

    def pick(rows: Rows) -> Any:
        # No samples cannot be collated, so one is, and then dropped.
        fetched = fetch(rows.tolist()) if rows.size else _each(fetch([0]), lambda column: column[:0])
        return _each(fetched, lambda column: moved(column, device))

    return RowTable(count=len(data), pick=pick)


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
    return moved(tensor[torch.from_numpy(rows).to(tensor.device)], device)


def moved(column: Any, device: str) -> Any:
    return column.to(device) if hasattr(column, "to") else column


def _length(data: Any) -> int:
    if not data.shape:
        raise JobError(f"worker.batches got a {type(data).__name__} without dimensions; {_EXPECTED}")
    return int(data.shape[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShare:
    """One rank's rows of a global batch of `total` samples; none, if the batch is too small.

    `stand_in` is a row of the batch, for what cannot be made from no rows.
    """

    rows: Rows
    total: int
    stand_in: Rows

    def micros(self, most: int | None) -> list[Rows]:
        """At least one, which may be empty: a rank without samples still averages the gradients."""
        if most is None or self.rows.size <= most:
            return [self.rows]
        return [self.rows[start : start + most] for start in range(0, self.rows.size, most)]


def shares(order: Rows, batch: int, rank: int, size: int, *, drop_last: bool) -> Iterator[BatchShare]:
    """Consecutive pieces whose sizes differ by one at most; the first ranks have the longer ones."""
    end = order.size - order.size % batch if drop_last else order.size
    for start in range(0, end, batch):
        yield share_of(order[start : start + batch], rank, size)


def share_of(batch: Rows, rank: int, size: int) -> BatchShare:
    """Of one global batch."""
    least, more = divmod(batch.size, size)
    first = rank * least + min(rank, more)
    rows = batch[first : first + least + (rank < more)]
    return BatchShare(rows=rows, total=int(batch.size), stand_in=batch[:1])


def proportional_shares(
    order: Rows, batch: int, rank: int, counts: Sequence[int], *, drop_last: bool
) -> Iterator[BatchShare]:
    """Where every rank has samples of its own (`counts`): all ranks have the same number of batches, and each
    contributes to every batch in proportion."""
    total = sum(counts)
    batches = total // batch if drop_last and total >= batch else -(-total // batch)
    for number in range(batches):
        pieces = [range(count * number // batches, count * (number + 1) // batches) for count in counts]
        rows = order[pieces[rank].start : pieces[rank].stop]
        total_here = sum(len(piece) for piece in pieces)
        yield BatchShare(rows=rows, total=total_here, stand_in=order[:1])


def checked_count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise JobError(f"worker.batches: {name} is {seen(value)}; expected a whole number of samples from 1")
    return int(value)


class Pass:
    """One step of a loop. `among` are all open ones, the innermost last. `mean`: a loss without dimensions is
    the mean over the samples, not their sum."""

    def __init__(self, among: list[Pass], share: BatchShare, *, mean: bool = False) -> None:
        self.share = share
        self.mean = mean
        self.samples = 0
        self.went_backward = False
        self._among = among

    def __enter__(self) -> Self:
        self._among.append(self)
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self._among.remove(self)
        return False

    def offer(self, samples: Any, count: int) -> Any:
        self.samples = count
        self.went_backward = False
        return samples

    def check(self) -> None:
        if not self.went_backward:
            raise passed_over()


def passed_over() -> JobError:
    """For code that treats a batch of micro-batches as samples."""
    return JobError(
        "a micro-batch of worker.batches(..., micro=...) was passed over without worker.backward; expected "
        "`for batch in worker.batches(data, 64, micro=16): optimizer.zero_grad(); "
        "for x, y in batch: worker.backward(...); optimizer.step()`"
    )
