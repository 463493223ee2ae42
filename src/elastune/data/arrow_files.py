"""CSV and Parquet, read by pyarrow: a dict with an array for each column.

Missing numbers become NaN, texts are arrays of Python's texts, lists of the same length an array with two
dimensions. The types of a CSV file are told by its values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from elastune.data.files import open_file
from elastune.data.outline import Outline
from elastune.errors import JobError


def outline_csv(path: str) -> Outline:
    """Counted by the parser that reads the file later: a quoted newline is no row. One column is enough."""
    pa, csv = _csv()
    with open_file(path) as file:
        names = csv.open_csv(file, parse_options=_parsing(csv)).schema.names
    with open_file(path) as file:
        only = csv.ConvertOptions(include_columns=names[:1], column_types={names[0]: pa.binary()})
        batches = csv.open_csv(file, parse_options=_parsing(csv), convert_options=only)
        rows = sum(batch.num_rows for batch in batches)
    return Outline(rows=rows, columns=dict.fromkeys(names, ""))


def read_csv(path: str) -> dict[str, npt.NDArray[Any]]:
    _, csv = _csv()
    with open_file(path) as file:
        return _columns(csv.read_csv(file, parse_options=_parsing(csv)))


def outline_parquet(path: str) -> Outline:
    parquet = _parquet()
    with open_file(path) as file:
        opened = parquet.ParquetFile(file)
        kinds = {field.name: str(field.type) for field in opened.schema_arrow}
        return Outline(rows=opened.metadata.num_rows, columns=kinds)


def read_parquet(path: str) -> dict[str, npt.NDArray[Any]]:
    parquet = _parquet()
    with open_file(path) as file:
        return _columns(parquet.ParquetFile(file).read())


def _columns(table: Any) -> dict[str, npt.NDArray[Any]]:
    if len(set(table.column_names)) < table.num_columns:
        raise JobError("two of its columns have the same name; expected a name for each")
    arrays = {name: _array(table.column(name)) for name in table.column_names}
    for array in arrays.values():
        array.flags.writeable = False  # as in `numpy_files`
    return arrays


def _array(column: Any) -> npt.NDArray[Any]:
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415
    import pyarrow.compute  # type: ignore[import-untyped]  # noqa: PLC0415

    kind = column.type
    if pa.types.is_null(kind):  # nothing in it, though other files may have numbers there
        return np.full(len(column), np.nan)
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = pa.compute.list_value_length(column).unique()
        if len(lengths) == 1 and lengths[0].is_valid:
            inner = _array(pa.chunked_array([chunk.flatten() for chunk in column.chunks]))
            return inner.reshape(len(column), lengths[0].as_py(), *inner.shape[1:])
    return np.asarray(column.to_numpy())


def _csv() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415  an extra, slow to import
        from pyarrow import csv  # noqa: PLC0415
    except ImportError:
        raise JobError("reading CSV needs pyarrow; pip install 'elastune[parquet]'") from None
    return pa, csv


def _parsing(csv: Any) -> Any:
    return csv.ParseOptions(newlines_in_values=True)


def _parquet() -> Any:
    try:
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise JobError("reading Parquet needs pyarrow; pip install 'elastune[parquet]'") from None
    return parquet
