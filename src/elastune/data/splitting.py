"""Data that fit into memory, shuffled and written as partitions; the same seed gives the same files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elastune.data import manifest
from elastune.data.columns import digest, to_columns
from elastune.data.dataset import Dataset
from elastune.data.failures import told
from elastune.data.files import absolute, look, make_folder, open_file
from elastune.data.manifest import Manifest, Piece, Recipe
from elastune.data.numpy_files import write_npz
from elastune.data.registering import register
from elastune.errors import JobError
from elastune.training.seeding import shuffled
from elastune.wording import seen, without_secrets

Columns = Mapping[str, npt.NDArray[Any]]
Rows = npt.NDArray[np.int64]


def split(
    data: Any,
    folder: str | Path,
    *,
    partitions: int,
    seed: int,
    validation: float = 0.0,
    validation_partitions: int | None = None,
) -> Dataset:
    """Write an array, a tuple or dict of arrays or tensors, or a data frame as npz files into `folder`.

    `validation` is the share of rows to evaluate with, in as many partitions unless said otherwise. Where the
    same split is there already, nothing is written.
    """
    columns = to_columns(data)
    count = len(next(iter(columns.values())))
    cut = _cut(count, partitions, validation, validation_partitions)
    recipe = Recipe(
        data=digest(columns),
        seed=_checked_seed(seed),
        partitions=partitions,
        validation=float(validation),
        validation_partitions=cut.validation_partitions,
    )
    place = absolute(folder)
    if not _is_there(place, recipe):
        _write_all(place, columns, recipe, cut)
    return register(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """How many rows and partitions there are of each kind."""

    training: int
    partitions: int
    validation: int
    validation_partitions: int


def _cut(count: int, partitions: int, share: float, validation_partitions: int | None) -> _Cut:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 <= share < 1.0:
        raise JobError(
            f"validation is {seen(share)}; expected a share of the rows from 0 to below 1, such as 0.1"
        )
    held_out = max(1, round(count * share)) if share else 0
    _check_parts(partitions, count - held_out, "partitions")
    if not held_out:
        if validation_partitions:
            raise JobError(
                "validation_partitions is given, but validation is 0: say which share of rows it is"
            )
        return _Cut(training=count, partitions=partitions, validation=0, validation_partitions=0)
    if validation_partitions is None:
        validation_partitions = min(partitions, held_out)
    _check_parts(validation_partitions, held_out, "validation_partitions")
    return _Cut(
        training=count - held_out,
        partitions=partitions,
        validation=held_out,
        validation_partitions=validation_partitions,
    )


def _check_parts(partitions: object, rows: int, name: str) -> None:
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        raise JobError(f"{name} is {seen(partitions)}; expected a whole number from 1")
    if partitions > rows:
        raise JobError(
            f"{name} is {partitions}, but only {rows:,} rows go into them; expected {rows} or less"
        )


def _checked_seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise JobError(f"seed is {seen(seed)}; expected a whole number from 0")
    return seed


def _is_there(folder: str, recipe: Recipe) -> bool:
    found = manifest.find(folder)
    if found is None or not found.is_whole:
        return False
    if different := recipe.differences(found.recipe):
        raise JobError(
            f"{without_secrets(folder)}: another split is there already, of other {', '.join(different)}; "
            "expected the same, or a folder without one: name another, or delete this one"
        )
    return True


def _write_all(folder: str, columns: Columns, recipe: Recipe, cut: _Cut) -> None:
    with told(folder, "written"):
        make_folder(folder)
    manifest.write(folder, Manifest(is_whole=False, recipe=recipe))
    order = shuffled(cut.training + cut.validation, recipe.seed)
    training, validation = order[: cut.training], order[cut.training :]
    written = Manifest(
        is_whole=True,
        recipe=recipe,
        training=_write(folder, "training", columns, training, cut.partitions),
        validation=_write(folder, "validation", columns, validation, cut.validation_partitions),
    )
    manifest.write(folder, written)


def _write(folder: str, kind: str, columns: Columns, order: Rows, count: int) -> tuple[Piece, ...]:
    """One partition after the other: what is in memory twice is one of them."""
    pieces = []
    for number, rows in enumerate(np.array_split(order, count) if count else []):
        name = f"{kind}-{number:05d}.npz"
        path = f"{folder}/{name}"
        with told(path, "written"), open_file(path, "wb") as file:
            write_npz(file, {column: array[rows] for column, array in columns.items()})
        pieces.append(Piece(file=name, rows=len(rows), bytes=look(path).size))
    return tuple(pieces)
