"""The pieces of one partition as one: rows after rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elastune.errors import JobError
from elastune.wording import several


def join(pieces: Sequence[Any]) -> Any:
    """One piece stays what it is, whatever that is."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    if len({type(piece) for piece in pieces}) > 1:
        kinds = several(sorted({type(piece).__name__ for piece in pieces}))
        raise JobError(f"its files gave different things ({kinds}); expected the same kind of each file")
    if isinstance(first, Mapping):
        _check({tuple(piece) for piece in pieces}, "names")
        return {name: join([piece[name] for piece in pieces]) for name in first}
    if isinstance(first, tuple):
        _check({len(piece) for piece in pieces}, "numbers of columns")
        columns = [join(column) for column in zip(*pieces, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)
    if isinstance(first, list):
        return [value for piece in pieces for value in piece]
    return _concatenated(first, pieces)


def _concatenated(first: Any, pieces: Sequence[Any]) -> Any:
    if isinstance(first, np.ndarray):
        return np.concatenate(pieces)
    if (torch := sys.modules.get("torch")) is not None and isinstance(first, torch.Tensor):
        return torch.cat(list(pieces))
    if (pandas := sys.modules.get("pandas")) is not None and isinstance(first, pandas.DataFrame):
        return pandas.concat(pieces, ignore_index=True)
    raise JobError(
        f"its {len(pieces)} files gave a {type(first).__name__} each, which cannot be joined; expected "
        "arrays, tensors, tuples or dicts of them, data frames or lists; or make every file a partition"
    )


def _check(different: set[Any], what: str) -> None:
    if len(different) > 1:
        raise JobError(f"its files have different {what}: {several(map(str, sorted(different)))}")
