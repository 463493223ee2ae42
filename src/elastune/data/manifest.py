"""`data.json`: what `split` made of some data.

It is written twice: as unfinished before the files, as whole after them. So a split
that was interrupted is never taken for a whole one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from elastune.data.failures import told
from elastune.data.files import File, look, read_if_there, replace_file
from elastune.errors import JobError
from elastune.wording import without_secrets

NAME = "data.json"
_MARK = "elastune_split"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What decides every byte of a split; `data` is a hash of the arrays."""

    data: str
    seed: int
    partitions: int
    validation: float
    validation_partitions: int

    def differences(self, other: Recipe) -> list[str]:
        mine, theirs = asdict(self), asdict(other)
        names = [name for name, value in mine.items() if theirs[name] != value]
        return [
            name if name == "data" else f"{name} {theirs[name]} instead of {mine[name]}" for name in names
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    file: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    is_whole: bool
    recipe: Recipe
    training: tuple[Piece, ...] = ()
    validation: tuple[Piece, ...] = ()


def write(folder: str, manifest: Manifest) -> None:
    text = json.dumps({_MARK: _VERSION, **asdict(manifest)}, indent=1)
    path = f"{folder}/{NAME}"
    with told(path, "written"):
        replace_file(path, f"{text}\n".encode())


def find(folder: str) -> Manifest | None:
    """That of a folder, if it has one, whole or not. A file of that name may be somebody's data, too."""
    path = f"{folder}/{NAME}"
    with told(path, "read"):
        content = read_if_there(path)
    if content is None or f'"{_MARK}"'.encode() not in content:
        return None
    try:
        return _parse(json.loads(content))
    except (ValueError, TypeError, KeyError) as error:
        raise JobError(
            f"{without_secrets(path)}: it cannot be read ({type(error).__name__}: {error}); expected what "
            "elastune.data.split wrote: delete the file and split the data again"
        ) from None


def check_whole(folder: str, manifest: Manifest) -> None:
    if not manifest.is_whole:
        raise JobError(
            f"{without_secrets(folder)}: a split of data was interrupted here; call elastune.data.split "
            "again, which writes all of it anew"
        )


def check_file(folder: str, piece: Piece) -> File:
    """A file that is not as it was written makes the rest of the manifest doubtful."""
    found = look(f"{folder}/{piece.file}")
    if found.size != piece.bytes:
        raise JobError(
            f"{without_secrets(found.path)}: it has {found.size:,} bytes, but {NAME} beside it says "
            f"{piece.bytes:,}; split the data again, into an empty folder"
        )
    return found


def _parse(content: Any) -> Manifest:
    if content[_MARK] != _VERSION:
        raise ValueError(f"version {content[_MARK]}")
    return Manifest(
        is_whole=bool(content["is_whole"]),
        recipe=Recipe(**content["recipe"]),
        training=_pieces(content["training"]),
        validation=_pieces(content["validation"]),
    )


def _pieces(written: list[Mapping[str, Any]]) -> tuple[Piece, ...]:
    return tuple(Piece(**each) for each in written)
