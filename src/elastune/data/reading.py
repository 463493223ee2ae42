"""One partition from its files, as the worker hands it to a trial."""

from __future__ import annotations

from typing import Any

from elastune.data import formats, joining
from elastune.data.dataset import Partition
from elastune.data.readers import Reader, call
from elastune.errors import JobError
from elastune.training.columns import open_table
from elastune.wording import several, without_secrets


def read_partition(partition: Partition, reader: Reader | None) -> tuple[Any, int]:
    """The data and how many rows they are, which must be as many as were registered."""
    shown = several(map(without_secrets, partition.sources), most=3)
    pieces = [formats.read(path) if reader is None else call(reader, path) for path in partition.sources]
    try:
        data = joining.join(pieces)
        rows = _count(data)
    except JobError as error:
        raise JobError(f"partition {partition.number} ({shown}): {error}") from None
    if partition.rows is not None and rows != partition.rows:
        raise JobError(
            f"partition {partition.number} ({shown}) has {rows:,} rows, but had {partition.rows:,} when the "
            "data were registered; a file was changed: begin a new run with the data as they are"
        )
    return data, rows


def _count(data: Any) -> int:
    """Rows weigh the metrics of a partition against those of others."""
    if isinstance(data, list):
        return len(data)
    try:
        return open_table(data, "cpu").count
    except JobError as error:
        try:
            return len(data)
        except TypeError:
            told = str(error).replace("worker.batches got", "the reader gave")
            raise JobError(told) from None
