"""From the name of a trainable to the trainable."""

from __future__ import annotations

from pathlib import Path

from elastune.errors import JobError
from elastune.trainables.curve_table import CurveTable
from elastune.trainables.functions import FunctionTrainable
from elastune.trainables.npz import read_npz
from elastune.trainables.parquet import read_parquet
from elastune.trainables.protocol import Trainable
from elastune.trainables.reference import CURVE_SUFFIXES, CurveFile, Reference, located
from elastune.trainables.synthetic import HyperSchedFunction
from elastune.training.loading import load
from elastune.wording import did_you_mean, seen

SYNTHETIC = {"synthetic:hypersched": HyperSchedFunction}


def open_trainable(reference: Reference, *, metric: str | None = None, folder: str | Path = ".") -> Trainable:
    """Read or import what `reference` names; a relative path starts at `folder`.

    `metric` chooses among the curves of a file, and names the number that a function returns.
    """
    place = located(reference, Path(folder))
    if isinstance(place, str) and place.endswith(CURVE_SUFFIXES):
        place = CurveFile(path=place)
    if isinstance(place, CurveFile):
        return open_curves(place, metric)
    if isinstance(place, str):
        if place in SYNTHETIC:
            return _with_metric(SYNTHETIC[place](), metric)
        if ":" not in place or place.startswith("synthetic:"):
            raise JobError(
                f"trainable is {seen(place)}; expected {possible()}{did_you_mean(place, SYNTHETIC)}"
            )
        return FunctionTrainable.of(load(place), metric, name=place)
    return FunctionTrainable.of(place, metric, name=getattr(place, "__qualname__", repr(place)))


def open_curves(file: CurveFile, metric: str | None) -> CurveTable:
    """The table in an `.npz` or `.parquet` file."""
    if not file.path.endswith(CURVE_SUFFIXES):
        raise JobError(f"{file.path}: not a file of curves; expected the ending .npz or .parquet")
    read = read_npz if file.path.endswith(".npz") else read_parquet
    return CurveTable.of(read(file, metric), source=file.path)


def possible() -> str:
    """What may be named as a trainable."""
    return (
        f"{', '.join(SYNTHETIC)}, a file of curves (such as curves.npz or curves.parquet) "
        "or a function (path/to/file.py:function or package.module:function)"
    )


def _with_metric(trainable: Trainable, metric: str | None) -> Trainable:
    if metric not in (None, trainable.metric):
        raise JobError(f"metric is {seen(metric)}; this trainable has only {trainable.metric!r}")
    return trainable
