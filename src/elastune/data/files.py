"""Files of this machine or of a storage that fsspec can reach: found, ordered, opened, and their errors."""

from __future__ import annotations

import contextlib
import glob
import os
import platform
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from elastune.errors import ElastuneError, ExecutionError, JobError
from elastune.wording import seen, several, without_secrets


@contextlib.contextmanager
def file_errors(path: str, verb: str) -> Iterator[None]:
    """Turn errors into ours; `verb` ends "cannot be ...". Libraries raise any kind for wrong content."""
    shown = without_secrets(path)
    try:
        yield
    except ElastuneError:
        raise
    except FileNotFoundError:
        if is_url(path):
            raise JobError(
                f"{shown}: there is no such file; expected the address of one that exists"
            ) from None
        raise JobError(
            f"{shown}: there is no such file on this machine ({platform.node()}); expected data that every "
            "machine can reach, or `hosts` that say which machines have which partition"
        ) from None
    except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise JobError(f"{shown}: cannot be {verb}: {error.strerror}") from None
    except OSError as error:
        if error.errno is None:  # pyarrow raises it for wrong content
            raise JobError(f"{shown}: cannot be {verb}: {_first_line(error)}") from error
        raise ExecutionError(f"{shown}: cannot be {verb} now: {_first_line(error)}") from error
    except Exception as error:
        raise JobError(f"{shown}: cannot be {verb}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {without_secrets(words[0])}" if words else type(error).__name__


Where: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
"""A folder, a file, a pattern such as `data/*.npz`, or one of them as a URL; or several files."""

_CHANGED = ("ETag", "etag", "LastModified", "last_modified", "mtime", "updated", "created")
_HIDDEN = (".", "_")
_PIECE = 4 * 2**20
_KEPT_PIECES = 4
HEADER_PIECE = 2**16
"""Of a remote file of which only the header or the directory is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    path: str
    size: int
    modified: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`folder` is None if files or a pattern were given."""

    folder: str | None
    paths: tuple[str, ...]


def find(where: Where) -> Found:
    """In natural order, `part-2` before `part-10`; a list of files keeps its order."""
    if isinstance(where, str | os.PathLike):
        place = absolute(where)
        found = _find_remote(place) if is_url(place) else _find_local(place)
    else:
        try:
            listed = tuple(absolute(path) for path in where)
        except TypeError:
            error = f"data: {seen(where)}; expected a folder, a pattern, a URL or a list of files"
            raise JobError(error) from None
        found = Found(folder=None, paths=listed)
        if len(set(listed)) < len(listed):
            twice = sorted({path for path in listed if listed.count(path) > 1})
            raise JobError(f"data: {several(twice)} listed more than once; expected each file once")
    if not found.paths and found.folder is None:
        raise JobError(f"data: there are no files: {seen(where)}; expected at least one")
    return found


def absolute(where: str | os.PathLike[str]) -> str:
    """Workers may have other working folders."""
    text = os.fspath(where)
    if is_url(text):
        return text.rstrip("/")
    return str(Path(text.removeprefix("file://")).expanduser().absolute())


def look(path: str) -> File:
    with file_errors(path, "read"):
        if not is_url(path):
            status = Path(path).stat()
            return File(path=path, size=status.st_size, modified=str(status.st_mtime_ns))
        system, inside = _connect(path)
        info = system.info(inside)
        changed = next((str(info[key]) for key in _CHANGED if info.get(key) is not None), "")
        return File(path=path, size=int(info.get("size") or 0), modified=changed)


def is_here(path: str) -> bool:
    return is_url(path) or Path(path).exists()


def open_file(path: str, mode: str = "rb", *, piece: int = _PIECE) -> IO[bytes]:
    """A remote file is read in pieces of so many bytes, each of them once; a header needs only small ones."""
    if not is_url(path):
        return cast("IO[bytes]", Path(path).open(mode))
    system, inside = _connect(path)
    if mode != "rb" or not _reads_pieces(system):
        return cast("IO[bytes]", system.open(inside, mode))
    kept = {"maxblocks": _KEPT_PIECES}
    return cast(
        "IO[bytes]", system.open(inside, mode, block_size=piece, cache_type="blockcache", cache_options=kept)
    )


def _reads_pieces(system: Any) -> bool:
    """HTTP and object stores. By default fsspec keeps one piece of a file: where the directory is at the end,
    as in npz files, the first pieces are then read again."""
    from fsspec.asyn import AsyncFileSystem  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415

    return isinstance(system, AsyncFileSystem)


def make_folder(path: str) -> None:
    if not is_url(path):
        Path(path).mkdir(parents=True, exist_ok=True)
        return
    system, inside = _connect(path)
    system.makedirs(inside, exist_ok=True)


def read_if_there(path: str) -> bytes | None:
    try:
        with open_file(path) as file:
            return file.read()
    except FileNotFoundError:
        return None


def replace_file(path: str, content: bytes) -> None:
    """Whole or not at all: an object store guarantees that, a disk needs a rename."""
    if is_url(path):
        system, inside = _connect(path)
        system.pipe_file(inside, content)
        return
    beside = Path(f"{path}.tmp")
    beside.write_bytes(content)
    beside.replace(path)


def natural(text: str) -> list[Any]:
    """A sort key with 2 before 10."""
    pieces = re.split(r"([0-9]+)", text)
    return [*(int(piece) if number % 2 else piece for number, piece in enumerate(pieces)), text]


def _find_local(place: str) -> Found:
    path = Path(place)
    if path.is_file():
        return Found(folder=None, paths=(place,))
    if not path.is_dir():
        if not glob.has_magic(place):
            raise JobError(
                f"data: there is no file or folder {place}; expected a folder of files, a pattern such as "
                "data/*.npz, or a list of files"
            )
        return Found(folder=None, paths=_in_order(glob.glob(place, recursive=True)))  # noqa: PTH207  absolute
    with file_errors(place, "listed"):
        return Found(folder=place, paths=_in_order(str(each) for each in path.iterdir()))


def _in_order(paths: Iterable[str]) -> tuple[str, ...]:
    files = (path for path in paths if _is_shown(path) and Path(path).is_file())
    return tuple(sorted(files, key=natural))


def _find_remote(url: str) -> Found:
    system, inside = _connect(url)
    with file_errors(url, "listed"):
        is_folder = False
        if glob.has_magic(inside):
            paths = system.glob(inside)
        elif is_folder := system.isdir(inside):
            paths = system.ls(inside, detail=False)
        else:
            paths = [inside]
        paths = [path for path in paths if _is_shown(path) and not system.isdir(path)]
        # A URL may have more than the path inside: a host, a user.
        start = url.removesuffix(inside) if url.endswith(inside) else None
        urls = (system.unstrip_protocol(path) if start is None else start + path for path in paths)
        return Found(folder=url if is_folder else None, paths=tuple(sorted(urls, key=natural)))


def _is_shown(path: str) -> bool:
    """`.crc` files, `_SUCCESS` and the like are not data."""
    return not path.rstrip("/").rsplit("/", 1)[-1].startswith(_HIDDEN)


def is_url(text: str) -> bool:
    return "://" in text and not text.startswith("file://")


def _connect(url: str) -> tuple[Any, str]:
    """The file system, which fsspec caches per process, and the path in it."""
    scheme = url.partition("://")[0]
    try:
        import fsspec  # noqa: PLC0415  only for URLs
    except ImportError:
        raise JobError(f"{scheme}:// needs fsspec; pip install fsspec, or give a local folder") from None
    try:
        system, inside = fsspec.url_to_fs(url)
    except ImportError as error:
        raise JobError(f"{scheme}:// needs another package on every machine: {error}") from None
    except ValueError as error:
        raise JobError(f"data: {without_secrets(url)} cannot be reached: {error}") from None
    return system, str(inside).rstrip("/")
