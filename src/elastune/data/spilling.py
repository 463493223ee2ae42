"""Arrays that do not fit into memory, in files that the process maps: the system keeps what is in use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elastune.errors import ExecutionError, JobError


def spill(data: Any, folder: str) -> Any:
    """The same data, on disk. The files have no names, so they end with the process, however it ends."""
    if isinstance(data, Mapping):
        return {name: spill(each, folder) for name, each in data.items()}
    if isinstance(data, tuple):
        parts = [spill(each, folder) for each in data]
        return type(data)(*parts) if hasattr(data, "_fields") else tuple(parts)
    if not isinstance(data, np.ndarray) or data.dtype.hasobject:
        kind = "texts or other objects" if isinstance(data, np.ndarray) else f"a {type(data).__name__}"
        raise JobError(f"there is {kind} in it, and only numpy arrays of numbers can be spilled")
    return _mapped(data, folder) if data.size else data


def _mapped(array: Any, folder: str) -> Any:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix="elastune-", suffix=".npy", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                np.save(file, array, allow_pickle=False)
            return np.load(path, mmap_mode="r")
        finally:
            Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise ExecutionError(
            f"data cannot be spilled to {folder}: {error}; free some space there, or set data.spill to "
            "another folder"
        ) from error
