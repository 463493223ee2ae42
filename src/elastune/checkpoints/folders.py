"""A place for files by name: a local or shared folder, or any storage that fsspec can reach.

Files are written whole and durably; a storage that fails is reported with advice. `store` names the files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

from elastune.checkpoints.container import Buffer
from elastune.errors import ExecutionError, JobError

_ELSEWHERE = "or keep the checkpoints elsewhere"
_ADVICE = {
    errno.ENOSPC: f"the disk is full; free some space, {_ELSEWHERE}",
    errno.EDQUOT: f"your quota is used up; free some space, {_ELSEWHERE}",
    errno.EFBIG: f"the file would be larger than allowed; raise the limit, {_ELSEWHERE}",
    errno.EROFS: "the file system is read-only; keep the checkpoints elsewhere",
    errno.EACCES: f"permission denied; make the folder writable for this user, {_ELSEWHERE}",
    errno.EPERM: f"not permitted; make the folder writable for this user, {_ELSEWHERE}",
    errno.ENOTDIR: f"a file stands where a folder is expected; move it away, {_ELSEWHERE}",
    errno.EEXIST: f"a file stands where a folder is expected; move it away, {_ELSEWHERE}",
}


@contextlib.contextmanager
def storage_errors(verb: str, path: str) -> Iterator[None]:
    """Turn the errors of a storage driver, which are of many kinds, into `ExecutionError`."""
    try:
        yield
    except ExecutionError:
        raise
    except OSError as error:
        reason = _ADVICE.get(error.errno or 0, str(error))
        if isinstance(error, FileNotFoundError) and verb == "read":
            reason = "there is no such checkpoint; it was deleted, or never written"
        raise ExecutionError(f"cannot {verb} {path}: {reason}") from error
    except Exception as error:
        raise ExecutionError(f"cannot {verb} {path}: {type(error).__name__}: {error}") from error


Content = bytes | tuple[Buffer, ...]
"""Of a file: all of it, or pieces that are written one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFolder:
    root: str
    is_local: ClassVar[bool] = True

    def path(self, name: str) -> str:
        return str(Path(self.root, name))

    def write(self, name: str, data: Content) -> None:
        path = Path(self.root, name)
        with storage_errors("write", str(path)):
            is_new = not path.parent.is_dir()
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
            try:
                with beside.open("xb") as file:
                    file.writelines((data,) if isinstance(data, bytes) else data)
                    file.flush()
                    os.fsync(file.fileno())
                beside.replace(path)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
            _sync(path.parent)
            if is_new:
                _sync(path.parent.parent)

    def read(self, name: str) -> bytes:
        with storage_errors("read", self.path(name)):
            return Path(self.root, name).read_bytes()

    def delete(self, name: str) -> None:
        with storage_errors("delete", self.path(name)):
            Path(self.root, name).unlink(missing_ok=True)

    def names(self) -> Iterator[str]:
        with storage_errors("list", self.root):
            for folder, _, files in os.walk(self.root):
                for file in files:
                    yield Path(folder, file).relative_to(self.root).as_posix()

    def sweep(self) -> None:
        with storage_errors("delete", self.root):
            for path in Path(self.root).rglob(".*.tmp"):
                path.unlink(missing_ok=True)

    def check_reach(self) -> None:
        """On another machine the same path would be another folder, without these checkpoints."""
        if not Path(self.root).is_dir():
            raise ExecutionError(
                f"there is no folder {self.root} on this machine ({platform.node()}); expected one that all "
                "machines share, or the URL of a storage that all can reach, such as s3://bucket/folder"
            )


def _sync(folder: Path) -> None:
    """A rename is durable once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Object stores have no folders to create; s3fs would create a bucket for a misspelled name.
_FLAT = frozenset({"abfs", "abfss", "az", "gcs", "gs", "s3", "s3a"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFolder:
    """Object stores replace a file as a whole; in others, the checksum reveals a half-written one."""

    url: str
    is_local: ClassVar[bool] = False

    def path(self, name: str) -> str:
        return f"{self.url}/{name}"

    def write(self, name: str, data: Content) -> None:
        with storage_errors("write", self._shown(name)):
            system, path = self._open(name)
            if self.url.partition("://")[0] not in _FLAT:
                system.makedirs(path.rpartition("/")[0], exist_ok=True)
            system.pipe_file(path, data if isinstance(data, bytes) else b"".join(data))

    def read(self, name: str) -> bytes:
        with storage_errors("read", self._shown(name)):
            system, path = self._open(name)
            return bytes(system.cat_file(path))

    def delete(self, name: str) -> None:
        with storage_errors("delete", self._shown(name)), contextlib.suppress(FileNotFoundError):
            system, path = self._open(name)
            system.rm_file(path)

    def names(self) -> Iterator[str]:
        with storage_errors("list", self._shown("")):
            system, root = self._open("")
            system.invalidate_cache()  # other processes write there as well
            try:
                found = system.find(root)
            except FileNotFoundError:
                return
            for path in found:
                yield str(path).removeprefix(root).lstrip("/")

    def sweep(self) -> None:
        """Nothing to do: an object store does not show half-written files."""

    def check_reach(self) -> None:
        """The fsspec driver of this storage must be installed."""
        scheme = self.url.partition("://")[0]
        try:
            import fsspec  # noqa: PLC0415  only for remote folders
        except ImportError:
            raise JobError(f"{scheme}:// needs fsspec; pip install fsspec, or give a local folder") from None
        try:
            fsspec.get_filesystem_class(scheme)
        except ImportError as error:
            raise JobError(f"{scheme}:// needs another package on every machine: {error}") from None
        except ValueError:
            known = "a local folder, s3://bucket/folder, gs://bucket/folder, ..."
            raise JobError(f"{scheme}:// is no storage that fsspec knows; expected {known}") from None

    def _open(self, name: str) -> tuple[Any, str]:
        """The file system, which fsspec caches per process, and the path in it."""
        import fsspec  # noqa: PLC0415

        system, root = fsspec.url_to_fs(self.url)
        return system, f"{root.rstrip('/')}/{name}".rstrip("/")

    def _shown(self, name: str) -> str:
        """Without credentials."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path}/{name}".rstrip("/")


class StoreFolder(Protocol):
    """Names are relative paths with `/`."""

    @property
    def is_local(self) -> bool: ...

    def path(self, name: str) -> str: ...

    def write(self, name: str, data: Content) -> None:
        """When this returns, the file is durable; until then, its previous content is."""

    def read(self, name: str) -> bytes: ...

    def delete(self, name: str) -> None:
        """A missing file is not an error."""

    def names(self) -> Iterator[str]: ...

    def sweep(self) -> None:
        """Remove files that were half written when their writer died. Only while no process writes."""

    def check_reach(self) -> None:
        """Raises if this machine cannot reach the folder. Cheap: writes nothing, asks no server."""


def open_folder(where: str | Path) -> StoreFolder:
    """Reads and writes nothing. A local path becomes absolute: processes differ in working folder."""
    text = os.fspath(where)
    if "://" not in text or text.startswith("file://"):
        return LocalFolder(root=str(Path(text.removeprefix("file://")).expanduser().absolute()))
    folder = RemoteFolder(url=text.rstrip("/"))
    folder.check_reach()
    return folder
