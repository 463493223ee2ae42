"""A shuffle and split of data that do not fit into memory: two passes over the disk.

The first pass reads the rows block by block, draws the partition of each row, and appends it to a file of
that partition. The draw is without replacement from the places that are left, so sizes are exact and every
assignment is equally likely. The second pass writes each partition in random order. In memory are one block
and one number per row of a partition; on the disk, the data a second time until the end.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elastune.data import formats
from elastune.data.file_contents import check_alike
from elastune.data.files import Where, find, is_url, look, open_file
from elastune.data.numpy_files import NpzWriter
from elastune.errors import JobError
from elastune.wording import several

Block = Mapping[str, Any]

_ROWS_AT_ONCE = 4096
_BYTES_AT_ONCE = 2**26
# Numpy's limit for draws without replacement.
_MOST_ROWS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSource:
    """Rows in blocks, which may be gone through again. `identity` changes with the data."""

    rows: int
    identity: str
    blocks: Callable[[], Iterator[Block]]


def source_of_files(where: Where) -> BlockSource:
    """All rows of these files, in their order."""
    paths = find(where).paths
    outlines = [(path, formats.outline(path)) for path in paths]
    for path, found in outlines:
        check_alike(path, found, *outlines[0])
    facts = [[path.rsplit("/", 1)[-1], *_stamp(path)] for path in paths]

    def blocks() -> Iterator[Block]:
        for path in paths:
            yield from formats.blocks(path, _ROWS_AT_ONCE)

    identity = hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()
    return BlockSource(rows=sum(found.rows for _, found in outlines), identity=identity, blocks=blocks)


def source_of(data: Any) -> BlockSource | None:
    """Of a dataset of Ray or torch, which is not read before its turn; None: it is neither."""
    if callable(getattr(data, "iter_batches", None)) and callable(getattr(data, "count", None)):
        rows, name = int(data.count()), str(data)
        return BlockSource(
            rows=rows,
            identity=hashlib.blake2b(f"ray {rows} {name}".encode(), digest_size=16).hexdigest(),
            blocks=lambda: iter(data.iter_batches(batch_size=_ROWS_AT_ONCE, batch_format="numpy")),
        )
    if hasattr(data, "shape") or isinstance(data, Mapping | list | tuple):
        return None
    if hasattr(data, "iloc") or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return None
    return BlockSource(rows=len(data), identity=_identity_of(data), blocks=lambda: _collated(data))


def _identity_of(data: Any) -> str:
    """A dataset has no hash: by its kind, length and first sample."""
    described = f"{type(data).__qualname__} {len(data)} {data[0]!r}" if len(data) else ""
    return hashlib.blake2b(described.encode(), digest_size=16).hexdigest()


def _collated(data: Any) -> Iterator[Block]:
    from torch.utils.data import default_collate  # noqa: PLC0415  a Dataset implies torch

    for start in range(0, len(data), _ROWS_AT_ONCE):
        samples = [data[index] for index in range(start, min(start + _ROWS_AT_ONCE, len(data)))]
        collated = default_collate(samples)
        columns = tuple(collated) if isinstance(collated, list) else collated
        yield {name: np.asarray(column) for name, column in formats.named(columns).items()}


def _stamp(path: str) -> tuple[int, str]:
    if not is_url(path) and Path(path).is_dir():
        return 0, ""
    found = look(path)
    return found.size, found.modified


class ExternalShuffle:
    """Of one source into partitions of these sizes. A seed gives the same files."""

    def __init__(self, source: BlockSource, sizes: Sequence[int], seed: int) -> None:
        if source.rows >= _MOST_ROWS:
            raise JobError(f"there are {source.rows:,} rows; expected less than {_MOST_ROWS:,}: split parts")
        self._source = source
        self._sizes = list(sizes)
        self._random = np.random.default_rng(seed)
        self._columns: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}

    def write(self, paths: Sequence[str], near: str) -> None:
        """The partitions, one file each; the temporary files are in `near`, if that is a local folder."""
        folder = None if is_url(near) else near
        with tempfile.TemporaryDirectory(prefix=".shuffle-", dir=folder) as name:
            self._deal(Path(name))
            for number, path in enumerate(paths):
                self._write(Path(name), number, path)

    def _deal(self, folder: Path) -> None:
        left, done = np.array(self._sizes), 0
        for block in self._source.blocks():
            count = len(next(iter(block.values())))
            done += count
            self._check(block, count, done)
            dealt = self._random.multivariate_hypergeometric(left, count, method="marginals")
            left = left - dealt
            places = np.repeat(np.arange(len(dealt)), dealt)
            self._random.shuffle(places)
            for number in np.flatnonzero(dealt):
                rows = np.flatnonzero(places == number)
                for index, array in enumerate(block.values()):
                    with (folder / f"{number}-{index}").open("ab") as file:
                        picked = np.ascontiguousarray(np.asarray(array)[rows])
                        file.write(picked.reshape(-1).view(np.uint8).data if picked.nbytes else b"")
        if done != self._source.rows:
            raise JobError(f"the data have {done:,} rows, but {self._source.rows:,} were counted")

    def _check(self, block: Block, count: int, done: int) -> None:
        if done > self._source.rows:
            raise JobError(f"the data have more rows than the {self._source.rows:,} that were counted")
        arrays = {name: np.asarray(array) for name, array in block.items()}
        if objects := [name for name, array in arrays.items() if array.dtype.hasobject]:
            raise JobError(
                f"{several(objects)} has texts or other objects; expected numbers only: leave such columns "
                "out, or write them as numbers"
            )
        if uneven := [name for name, array in arrays.items() if len(array) != count]:
            raise JobError(f"{several(uneven)} is not as long as the other columns; expected as many rows")
        found = {name: (array.dtype, array.shape[1:]) for name, array in arrays.items()}
        self._columns = self._columns or found
        if found != self._columns:
            different = [name for name in found if found.get(name) != self._columns.get(name)]
            raise JobError(
                f"{several(different or self._columns)} changes its type or shape in the course of the data; "
                "expected the same in all rows"
            )

    def _write(self, folder: Path, number: int, path: str) -> None:
        size = self._sizes[number]
        order = self._random.permutation(size)
        with open_file(path, "wb") as file, NpzWriter(file) as writer:
            for index, (name, (dtype, inner)) in enumerate(self._columns.items()):
                shape, bucket = (size, *inner), folder / f"{number}-{index}"
                if not size or not np.prod(inner):
                    writer.write(name, dtype, shape, [])
                    continue
                rows = np.memmap(bucket, dtype, "r", shape=shape)
                each = max(1, _BYTES_AT_ONCE // max(1, rows[:1].nbytes))
                picked = (rows[order[start : start + each]] for start in range(0, size, each))
                writer.write(name, dtype, shape, picked)
                del rows
                bucket.unlink()
