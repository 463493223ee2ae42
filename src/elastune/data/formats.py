"""The file formats that are known, by suffix: how to read a file, and its columns and rows from its headers.

CSV and Parquet are read by pyarrow into a dict with an array for each column. Missing numbers become NaN,
texts are arrays of Python's texts, lists of the same length an array with two dimensions. The types of a CSV
file follow from its values. Numpy: `np.savez(file, x=..., y=...)` gives a dict of arrays, `np.savez(file, x,
y)` a tuple of them; a file with nothing but `array` is that array. Objects in numpy files are not read:
unpickling runs code. All partitions must have the same columns.
"""

from __future__ import annotations

import contextlib
import importlib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from elastune.data.files import file_errors, open_file
from elastune.errors import JobError
from elastune.wording import several, without_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContents:
    """`columns` maps names to kinds; an empty kind is known only after reading."""

    rows: int
    columns: Mapping[str, str]


def check_alike(path: str, found: FileContents, first_path: str, first: FileContents) -> None:
    """A model visits all partitions, so all need the same columns."""
    missing = [name for name in first.columns if name not in found.columns]
    added = [name for name in found.columns if name not in first.columns]
    wrong = [f"has no {several(missing)}"] if missing else []
    wrong += [f"has {several(added)} more"] if added else []
    wrong += [
        f"{name} is {found.columns[name]}, not {kind}"
        for name, kind in first.columns.items()
        if name in found.columns and found.columns[name] != kind
    ]
    if wrong:
        raise JobError(
            f"{without_secrets(path)}: its columns differ from those of {without_secrets(first_path)}: "
            f"{'; '.join(wrong)}; expected the same columns in every file"
        )


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
    with open_file(path) as file:
        opened = parquet.ParquetFile(file)
        kinds = {field.name: str(field.type) for field in opened.schema_arrow}
        return FileContents(rows=opened.metadata.num_rows, columns=kinds)


def read_parquet(path: str) -> dict[str, npt.NDArray[Any]]:
    _, parquet = _pyarrow("parquet", "Parquet")
    with open_file(path) as file:
        return _columns(parquet.ParquetFile(file).read())


def _columns(table: Any) -> dict[str, npt.NDArray[Any]]:
    if len(set(table.column_names)) < table.num_columns:
        raise JobError("two of its columns have the same name; expected a name for each")
    return {name: _protected(_array(table.column(name))) for name in table.column_names}


def _array(column: Any) -> npt.NDArray[Any]:
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415
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


SINGLE = "array"
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def numbered(count: int) -> tuple[str, ...]:
    """Numpy's names for arrays without names."""
    return tuple(f"arr_{number}" for number in range(count))


def is_unnamed(names: Iterable[str]) -> bool:
    """Whether these names stand for a tuple or a single array."""
    given = set(names)
    return given in (set(numbered(len(given))), {SINGLE})


def outline_npy(path: str) -> FileContents:
    with open_file(path) as file:
        return _outline({SINGLE: _header(file)})


def outline_npz(path: str) -> FileContents:
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        headers = {}
        for name in archive.namelist():
            with archive.open(name) as member:
                headers[name.removesuffix(".npy")] = _header(member)
    return _outline(headers)


def read_npy(path: str) -> Any:
    with open_file(path) as file:
        return _protected(np.load(file, allow_pickle=False))


def read_npz(path: str) -> Any:
    with open_file(path) as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: _protected(archive[name]) for name in archive.files}
    _outline({name: (array.shape, array.dtype) for name, array in arrays.items()})
    if not is_unnamed(arrays):
        return arrays
    return arrays[SINGLE] if SINGLE in arrays else tuple(arrays[name] for name in numbered(len(arrays)))


def write_npz(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Like numpy's `savez`, which cannot have a column called `file`. The same arrays give the same bytes."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _protected(array: Any) -> Any:
    """The trials that visit a partition share it, so none may change it."""
    array.flags.writeable = False
    return array


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise JobError(f"its arrays are of version {version[0]}.{version[1]}; expected 1.0 or 2.0")
    shape, _, dtype = _HEADERS[version](file)
    return shape, dtype


def _outline(headers: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> FileContents:
    if not headers:
        raise JobError("there are no arrays in it")
    if objects := [name for name, (_, dtype) in headers.items() if dtype.hasobject]:
        raise JobError(
            f"{several(objects)} has Python objects, which are not read because that can run code; expected "
            "numbers, or texts as a numpy array of texts (astype(str))"
        )
    if bare := [name for name, (shape, _) in headers.items() if not shape]:
        raise JobError(f"{several(bare)} has no dimensions; expected arrays: the first dimension counts rows")
    rows = {name: shape[0] for name, (shape, _) in headers.items()}
    if len(set(rows.values())) > 1:
        lengths = several(f"{name}: {count}" for name, count in rows.items())
        raise JobError(f"its arrays have different lengths ({lengths}); expected as many rows in each")
    columns = {name: _kind(shape, dtype) for name, (shape, dtype) in headers.items()}
    return FileContents(rows=next(iter(rows.values())), columns=columns)


def _kind(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Without the length of texts, which may differ between files."""
    name = "texts" if dtype.kind in "US" else str(dtype)
    return name + "".join(f"[{size}]" for size in shape[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`outline` reads the headers of a file, `read` its arrays."""

    name: str
    outline: Callable[[str], FileContents]
    read: Callable[[str], Any]


FORMATS: Mapping[str, Format] = {
    ".npz": Format(name="npz", outline=outline_npz, read=read_npz),
    ".npy": Format(name="npy", outline=outline_npy, read=read_npy),
    ".csv": Format(name="csv", outline=outline_csv, read=read_csv),
    ".parquet": Format(name="Parquet", outline=outline_parquet, read=read_parquet),
}


def suffix_of(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    return f".{name.rsplit('.', 1)[1].lower()}" if "." in name else ""


def format_of(path: str) -> Format:
    try:
        return FORMATS[suffix_of(path)]
    except KeyError:
        raise JobError(
            f"{without_secrets(path)}: this is no {several(FORMATS)} file; expected one of them, or a "
            "`reader`: a function of yours that takes the path of a file and returns its data"
        ) from None


def outline(path: str) -> FileContents:
    with _named_errors(path) as known:
        found = known.outline(path)
    if not found.rows:
        raise JobError(f"{without_secrets(path)}: there are no rows in it; leave the file out")
    return found


def read(path: str) -> Any:
    with _named_errors(path) as known:
        return known.read(path)


@contextlib.contextmanager
def _named_errors(path: str) -> Iterator[Format]:
    """The format of a file; errors in the block name the file."""
    known = format_of(path)
    with file_errors(path, f"read as {known.name}"):
        try:
            yield known
        except JobError as error:
            raise JobError(f"{without_secrets(path)}: {error}") from None
