"""What a user has in memory as arrays by name; the names tell tuples and single arrays when they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from elastune.data.numpy_files import SINGLE, is_unnamed, numbered
from elastune.errors import JobError
from elastune.wording import seen, several

_EXPECTED = "expected an array or tensor, a tuple or dict of them, or a data frame"
_HASHED_AT_ONCE = 2**26


def to_columns(data: Any) -> dict[str, npt.NDArray[Any]]:
    """Names to arrays of the same length; nothing is copied that is an array already."""
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        columns = _named({name: data[name].to_numpy() for name in data.columns})
    elif isinstance(data, Mapping):
        columns = _named(data)
    elif isinstance(data, tuple):
        columns = {name: _array(each, name) for name, each in zip(numbered(len(data)), data, strict=True)}
    elif hasattr(data, "shape"):
        columns = {SINGLE: _array(data, "data")}
    else:
        hint = "; make a list of columns a tuple" if isinstance(data, list) else ""
        raise JobError(f"split got a {type(data).__name__}; {_EXPECTED}{hint}")
    lengths = {name: len(array) for name, array in columns.items()}
    if len(set(lengths.values())) != 1:
        told = several(f"{name}: {count}" for name, count in lengths.items())
        raise JobError(f"split got columns of different lengths ({told}); expected as many rows in each")
    if not min(lengths.values()):
        raise JobError("split got no rows; expected at least one for each partition")
    return columns


def digest(columns: Mapping[str, npt.NDArray[Any]]) -> str:
    """Of names, types and values."""
    hashed = hashlib.blake2b(digest_size=16)
    for name, array in columns.items():
        hashed.update(repr((name, array.dtype.str, array.shape)).encode())
        rows = max(1, _HASHED_AT_ONCE * len(array) // max(1, array.nbytes))
        for start in range(0, len(array), rows):
            hashed.update(np.ascontiguousarray(array[start : start + rows]).reshape(-1).view(np.uint8).data)
    return hashed.hexdigest()


def _named(data: Mapping[Any, Any]) -> dict[str, npt.NDArray[Any]]:
    for name in data:
        if not isinstance(name, str) or not name:
            raise JobError(f"split got a column {seen(name)}; expected a name")
    if is_unnamed(data):
        raise JobError(
            f"split got columns {several(data)}, names that stand for arrays without names; "
            "expected others, or a tuple"
        )
    return {name: _array(each, repr(name)) for name, each in data.items()}


def _array(value: Any, name: str) -> npt.NDArray[Any]:
    detach = getattr(value, "detach", None)
    try:
        array = np.asarray(value if detach is None else detach().cpu())
    except (TypeError, ValueError, RuntimeError) as error:
        raise JobError(f"split got {name} that cannot become a numpy array: {error}; {_EXPECTED}") from None
    if not array.shape:
        raise JobError(f"split got {name} without dimensions; {_EXPECTED}, whose first dimension counts rows")
    if array.dtype.hasobject:
        if not all(isinstance(each, str) for each in array.flat):
            raise JobError(
                f"split got {name} with Python objects; expected numbers or texts only (missing values too: "
                "fill them first)"
            )
        array = array.astype(str)
    return array
