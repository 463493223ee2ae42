"""Data, shuffled and written as partitions; the same seed gives the same files.

Data in memory become arrays by name; the names show tuples and single arrays when the files are read. Files,
and datasets of Ray and torch, may be larger than memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from elastune.data.dataset import Dataset, Manifest, Piece, SplitRecipe, find_manifest, write_manifest
from elastune.data.files import Where, absolute, file_errors, look, make_folder, open_file
from elastune.data.numpy_files import SINGLE, is_unnamed, numbered, write_npz
from elastune.data.registering import register
from elastune.data.shuffling import BlockSource, ExternalShuffle, source_of, source_of_files
from elastune.errors import JobError
from elastune.training.seeding import shuffled
from elastune.wording import seen, several, without_secrets

_EXPECTED = "expected an array or tensor, a tuple or dict of them, or a data frame"
_HASHED_AT_ONCE = 2**26

Columns = Mapping[str, npt.NDArray[Any]]
Rows = npt.NDArray[np.int64]


def to_columns(data: Any) -> Columns:
    """Names to arrays of the same length; arrays are not copied."""
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
        found = several(f"{name}: {count}" for name, count in lengths.items())
        raise JobError(f"split got columns of different lengths ({found}); expected as many rows in each")
    if not min(lengths.values()):
        raise JobError("split got no rows; expected at least one for each partition")
    return columns


def digest(columns: Columns) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for name, array in columns.items():
        hashed.update(repr((name, array.dtype.str, array.shape)).encode())
        rows = max(1, _HASHED_AT_ONCE * len(array) // max(1, array.nbytes))
        for start in range(0, len(array), rows):
            hashed.update(np.ascontiguousarray(array[start : start + rows]).reshape(-1).view(np.uint8).data)
    return hashed.hexdigest()


def _named(data: Mapping[Any, Any]) -> Columns:
    for name in data:
        if not isinstance(name, str) or not name:
            raise JobError(f"split got a column {seen(name)}; expected a name")
    if is_unnamed(data):
        names = f"{several(data)}, names that stand for arrays without names"
        raise JobError(f"split got columns {names}; expected others, or a tuple")
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

    A dataset of Ray or torch is never in memory as a whole. `validation` is the share of rows to evaluate
    with, in as many partitions unless said otherwise. If the same split is there already, nothing is written.
    """
    shares = _Shares(partitions, seed, validation, validation_partitions)
    if (source := source_of(data)) is not None:
        return _split_blocks(source, folder, shares)
    columns = to_columns(data)
    count = len(next(iter(columns.values())))
    recipe, held_out = shares.recipe(count, digest(columns))
    place = absolute(folder)
    if not _is_there(place, recipe):
        _write_all(place, columns, recipe, shuffled(count, seed), count - held_out)
    return register(place)


def split_files(
    path: Where,
    folder: str | Path,
    *,
    partitions: int,
    seed: int = 0,
    validation: float = 0.0,
    validation_partitions: int | None = None,
) -> Dataset:
    """The same with the rows of files, which are never in memory as a whole.

    `path` is a folder, a pattern, a URL, or several files. While it works, the data are on the disk twice.
    """
    shares = _Shares(partitions, seed, validation, validation_partitions)
    return _split_blocks(source_of_files(path), folder, shares)


class _Shares(NamedTuple):
    partitions: int
    seed: int
    validation: float
    validation_partitions: int | None

    def recipe(self, rows: int, data: str) -> tuple[SplitRecipe, int]:
        """Of so many rows; and how many of them are for validation."""
        held_out, evaluated = _hold_out(rows, self.partitions, self.validation, self.validation_partitions)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise JobError(f"seed is {seen(self.seed)}; expected a whole number from 0")
        recipe = SplitRecipe(
            data=data,
            seed=self.seed,
            partitions=self.partitions,
            validation=float(self.validation),
            validation_partitions=evaluated,
        )
        return recipe, held_out


def _split_blocks(source: BlockSource, folder: str | Path, shares: _Shares) -> Dataset:
    recipe, held_out = shares.recipe(source.rows, source.identity)
    place = absolute(folder)
    if _is_there(place, recipe):
        return register(place)
    with file_errors(place, "written"):
        make_folder(place)
    write_manifest(place, Manifest(is_whole=False, recipe=recipe))
    kinds = (
        ("training", source.rows - held_out, recipe.partitions),
        ("validation", held_out, recipe.validation_partitions),
    )
    names = [f"{kind}-{number:05d}.npz" for kind, _, count in kinds for number in range(count)]
    sizes = [size for _, rows, count in kinds for size in _even(rows, count)]
    with file_errors(place, "written"):
        ExternalShuffle(source, sizes, shares.seed).write([f"{place}/{name}" for name in names], place)
    pieces = [
        Piece(file=name, rows=size, bytes=look(f"{place}/{name}").size)
        for name, size in zip(names, sizes, strict=True)
    ]
    training, validation = tuple(pieces[: shares.partitions]), tuple(pieces[shares.partitions :])
    write_manifest(place, Manifest(is_whole=True, recipe=recipe, training=training, validation=validation))
    return register(place)


def _even(rows: int, count: int) -> list[int]:
    return [(rows + count - 1 - number) // count for number in range(count)]


def _hold_out(
    count: int, partitions: int, share: float, validation_partitions: int | None
) -> tuple[int, int]:
    """The number of rows for validation, and of their partitions."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 <= share < 1.0:
        raise JobError(
            f"validation is {seen(share)}; expected a share of rows from 0 to below 1, such as 0.1"
        )
    held_out = max(1, round(count * share)) if share else 0
    _check_parts(partitions, count - held_out, "partitions")
    if not held_out:
        if validation_partitions:
            raise JobError("validation_partitions is given, but validation is 0; give its share of rows")
        return 0, 0
    if validation_partitions is None:
        validation_partitions = min(partitions, held_out)
    _check_parts(validation_partitions, held_out, "validation_partitions")
    return held_out, validation_partitions


def _check_parts(partitions: object, rows: int, name: str) -> None:
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        raise JobError(f"{name} is {seen(partitions)}; expected a whole number from 1")
    if partitions > rows:
        raise JobError(f"{name} is {partitions}, but only {rows:,} rows are there; expected {rows} or less")


def _is_there(folder: str, recipe: SplitRecipe) -> bool:
    found = find_manifest(folder)
    if found is None or not found.is_whole:
        return False
    if different := recipe.differences(found.recipe):
        raise JobError(
            f"{without_secrets(folder)}: another split is there already, of other {', '.join(different)}; "
            "expected the same, or a folder without one: name another, or delete this one"
        )
    return True


def _write_all(folder: str, columns: Columns, recipe: SplitRecipe, order: Rows, trained: int) -> None:
    """The first `trained` rows of `order` are for training, the others for validation."""
    with file_errors(folder, "written"):
        make_folder(folder)
    write_manifest(folder, Manifest(is_whole=False, recipe=recipe))
    training = _write(folder, "training", columns, order[:trained], recipe.partitions)
    validation = _write(folder, "validation", columns, order[trained:], recipe.validation_partitions)
    write_manifest(folder, Manifest(is_whole=True, recipe=recipe, training=training, validation=validation))


def _write(folder: str, kind: str, columns: Columns, order: Rows, count: int) -> tuple[Piece, ...]:
    """One partition after the other, so that only one of them is in memory twice."""
    pieces = []
    for number, rows in enumerate(np.array_split(order, count) if count else []):
        name = f"{kind}-{number:05d}.npz"
        path = f"{folder}/{name}"
        with file_errors(path, "written"), open_file(path, "wb") as file:
            write_npz(file, {column: array[rows] for column, array in columns.items()})
        pieces.append(Piece(file=name, rows=len(rows), bytes=look(path).size))
    return tuple(pieces)
