"""The formats that are known, by the ends of the files' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from elastune.data import arrow_files, numpy_files
from elastune.data.failures import told
from elastune.data.outline import Outline
from elastune.errors import JobError
from elastune.wording import several, without_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`outline` looks at a file without reading its data, `read` gives arrays."""

    name: str
    outline: Callable[[str], Outline]
    read: Callable[[str], Any]


FORMATS: Mapping[str, Format] = {
    ".npz": Format(name="npz", outline=numpy_files.outline_npz, read=numpy_files.read_npz),
    ".npy": Format(name="npy", outline=numpy_files.outline_npy, read=numpy_files.read_npy),
    ".csv": Format(name="csv", outline=arrow_files.outline_csv, read=arrow_files.read_csv),
    ".parquet": Format(name="Parquet", outline=arrow_files.outline_parquet, read=arrow_files.read_parquet),
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


def outline(path: str) -> Outline:
    """Every error names the file."""
    known = format_of(path)
    with told(path, f"read as {known.name}"):
        try:
            found = known.outline(path)
        except JobError as error:
            raise JobError(f"{without_secrets(path)}: {error}") from None
    if not found.rows:
        raise JobError(f"{without_secrets(path)}: there are no rows in it; leave the file out")
    return found


def read(path: str) -> Any:
    """Every error names the file."""
    known = format_of(path)
    with told(path, f"read as {known.name}"):
        try:
            return known.read(path)
        except JobError as error:
            raise JobError(f"{without_secrets(path)}: {error}") from None
