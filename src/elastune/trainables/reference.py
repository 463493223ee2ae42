"""How a job names its trainable, before anything is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

CURVE_SUFFIXES = (".npz", ".parquet")

Function = Callable[..., object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFile:
    """A file of recorded curves. What is None is found by the rules for such files.

    `task` is the one of several tasks; `parameters` are the hyperparameters; `length` is the array that holds
    the number of iterations of each configuration.
    """

    path: str
    task: str | int | None = None
    parameters: tuple[str, ...] | None = None
    length: str | None = None


Reference = str | CurveFile | Function


def located(reference: Reference, folder: Path) -> Reference:
    """The same reference with its path, if it has one, seen from the working folder instead of `folder`."""
    if isinstance(reference, CurveFile):
        return replace(reference, path=str(folder / reference.path))
    if not isinstance(reference, str):
        return reference
    path, colon, name = reference.rpartition(":")
    if reference.endswith(CURVE_SUFFIXES):
        return str(folder / reference)
    return f"{folder / path}{colon}{name}" if path.endswith(".py") else reference
