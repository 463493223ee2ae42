"""What is known of a file before its data are read: rows, and columns with their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
