"""CSV and Parquet: read by pyarrow into a dict with an array for each column.

Missing numbers become NaN, texts are arrays of Python's texts, lists of the same length an array with two
dimensions. The types of a CSV file follow from its values.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from elastune.data.file_contents import FileContents
from elastune.data.files import HEADER_PIECE, open_file
from elastune.data.numpy_files import protected
from elastune.errors import JobError


def outline_csv(path: str) -> FileContents:
    """Counted by the parser that reads the file later: a quoted newline is no row. One column is enough."""
    pa, csv = _pyarrow("csv", "CSV")
    parsing = csv.ParseOptions(newlines_in_values=True)
    with open_file(path) as file:
        names = csv.open_csv(file, parse_options=parsing).schema.names
    with open_file(path) as file:
        only = csv.ConvertOptions(include_columns=names[:1], column_types={names[0]: pa.binary()})
        batches = csv.open_csv(file, parse_options=parsing, convert_options=only)
        rows = sum(batch.num_rows for batch in batches)
    return FileContents(rows=rows, columns=dict.fromkeys(names, ""))


def read_csv(path: str) -> dict[str, npt.NDArray[Any]]:
    _, csv = _pyarrow("csv", "CSV")
    with open_file(path) as file:
        return _columns(csv.read_csv(file, parse_options=csv.ParseOptions(newlines_in_values=True)))


def outline_parquet(path: str) -> FileContents:
    _, parquet = _pyarrow("parquet", "Parquet")
    with open_file(path, piece=HEADER_PIECE) as file:
        opened = parquet.ParquetFile(file)
        kinds = {field.name: str(field.type) for field in opened.schema_arrow}
        return FileContents(rows=opened.metadata.num_rows, columns=kinds)


def read_parquet(path: str) -> dict[str, npt.NDArray[Any]]:
    _, parquet = _pyarrow("parquet", "Parquet")
    with open_file(path) as file:
        return _columns(parquet.ParquetFile(file).read())


def blocks_of_csv(path: str, rows: int) -> Iterator[dict[str, Any]]:
    """The types follow from the first values."""
    _, csv = _pyarrow("csv", "CSV")
    with open_file(path) as file:
        batches = csv.open_csv(file, parse_options=csv.ParseOptions(newlines_in_values=True))
        for batch in batches:
            whole = _table(batch)
            for start in range(0, whole.num_rows, rows):
                yield _columns(whole.slice(start, rows))


def blocks_of_parquet(path: str, rows: int) -> Iterator[dict[str, Any]]:
    """Of each row group only `rows` are in memory as arrays."""
    _, parquet = _pyarrow("parquet", "Parquet")
    with open_file(path) as file:
        for batch in parquet.ParquetFile(file).iter_batches(batch_size=rows):
            yield _columns(_table(batch))


def _table(batch: Any) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415

    return pa.Table.from_batches([batch])


def _columns(table: Any) -> dict[str, npt.NDArray[Any]]:
    if len(set(table.column_names)) < table.num_columns:
        raise JobError("two of its columns have the same name; expected a name for each")
    return {name: protected(_array(table.column(name))) for name in table.column_names}


def _array(column: Any) -> npt.NDArray[Any]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute  # type: ignore[import-untyped]  # noqa: PLC0415

    kind = column.type
    if pa.types.is_null(kind):  # an empty column, which may have numbers in other files
        return np.full(len(column), np.nan)
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = pa.compute.list_value_length(column).unique()
        if len(lengths) == 1 and lengths[0].is_valid:
            inner = _array(pa.chunked_array([chunk.flatten() for chunk in column.chunks]))
            return inner.reshape(len(column), lengths[0].as_py(), *inner.shape[1:])
    return np.asarray(column.to_numpy())


def _pyarrow(module: str, kind: str) -> tuple[Any, Any]:
    """The package and one of its modules: an extra, slow to import."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module(f"pyarrow.{module}")
    except ImportError:
        raise JobError(f"reading {kind} needs pyarrow; pip install 'elastune[parquet]'") from None
