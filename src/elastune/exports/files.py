"""Tables as files: CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path

from elastune.errors import JobError
from elastune.exports.columns import Columns, uniform
from elastune.exports.missing import require


def write_csv(path: Path, columns: Columns) -> None:
    """UTF-8 with a header; what is missing is empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def write_json(path: Path, columns: Columns) -> None:
    """A list of objects. JSON knows no NaN and no infinity: they are text, as in the journal."""
    names = list(columns)
    lines = (dict(zip(names, map(_plain, values), strict=True)) for values in _lines(columns))
    with path.open("w", encoding="utf-8") as file:
        file.write("[\n")
        file.write(",\n".join(json.dumps(line, ensure_ascii=False, allow_nan=False) for line in lines))
        file.write("\n]\n")


def write_parquet(path: Path, columns: Columns) -> None:
    require("pyarrow", extra="parquet", what="Parquet")
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

    table = pa.table({name: pa.array(uniform(column)) for name, column in columns.items()})
    pq.write_table(table, path)


WRITERS: dict[str, Callable[[Path, Columns], None]] = {
    "csv": write_csv,
    "json": write_json,
    "parquet": write_parquet,
}


def write_tables(
    format_: str, folder: Path, tables: dict[str, Columns], *, force: bool = False
) -> tuple[Path, ...]:
    """Each table into a file of its name. What is there already is replaced only by `force`."""
    paths = {folder / f"{name}.{format_}": columns for name, columns in tables.items()}
    there = [path for path in paths if path.exists()]
    if there and not force:
        raise JobError(
            f"{there[0]} is there already; choose another place with --to, or replace it with --force"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, columns in paths.items():
            part = path.with_name(f".{path.name}.part")
            WRITERS[format_](part, columns)
            part.replace(path)
    except OSError as error:
        raise JobError(f"{folder} cannot be written: {error.strerror}; choose another with --to") from error
    return tuple(paths)


def _lines(columns: Columns) -> Iterable[tuple[object, ...]]:
    return zip(*columns.values(), strict=True)


def _plain(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
