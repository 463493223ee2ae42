"""What a storage that fails means, and what to do about it.

A folder of this machine, or one that all machines share: written once, whole, and to stay.

A folder elsewhere: whatever fsspec can reach.

A place for files by name: a local folder, or anything that fsspec can reach.

What the files are called is decided in `store`.
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
from typing import Any, Protocol
from urllib.parse import urlsplit

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
def told(verb: str, path: str) -> Iterator[None]:
    """Drivers raise errors of every kind; all of them mean that the storage did not do what it was told."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFolder:
    root: str

    @property
    def is_local(self) -> bool:
        return True

    def path(self, name: str) -> str:
        return str(Path(self.root, name))

    def write(self, name: str, data: bytes) -> None:
        path = Path(self.root, name)
        with told("write", str(path)):
            is_new = not path.parent.is_dir()
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
            try:
                with beside.open("xb") as file:
                    file.write(data)
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
        with told("read", self.path(name)):
            return Path(self.root, name).read_bytes()

    def delete(self, name: str) -> None:
        with told("delete", self.path(name)):
            Path(self.root, name).unlink(missing_ok=True)

    def names(self) -> Iterator[str]:
        with told("list", self.root):
            for folder, _, files in os.walk(self.root):
                for file in files:
                    yield Path(folder, file).relative_to(self.root).as_posix()

    def sweep(self) -> None:
        with told("delete", self.root):
            for path in Path(self.root).rglob(".*.tmp"):
                path.unlink(missing_ok=True)

    def check_reach(self) -> None:
        """Elsewhere the same path would be another folder, and its checkpoints would be missed later."""
        if not Path(self.root).is_dir():
            raise ExecutionError(
                f"there is no folder {self.root} on this machine ({platform.node()}); expected one that all "
                "machines share, or the URL of a storage that all can reach, such as s3://bucket/folder"
            )


def _sync(folder: Path) -> None:
    """A rename is durable when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Stores of objects have no folders to be made; s3fs would make a bucket of a name that was misspelled.
_FLAT = frozenset({"abfs", "abfss", "az", "gcs", "gs", "s3", "s3a"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFolder:
    """Object stores replace a file as a whole; elsewhere the checksum tells a half-written one."""

    url: str

    @property
    def is_local(self) -> bool:
        return False

    def path(self, name: str) -> str:
        return f"{self.url}/{name}"

    def write(self, name: str, data: bytes) -> None:
        with told("write", self._shown(name)):
            system, root = self._open()
            path = f"{root}/{name}"
            if self.url.partition("://")[0] not in _FLAT:
                system.makedirs(path.rpartition("/")[0], exist_ok=True)
            system.pipe_file(path, data)

    def read(self, name: str) -> bytes:
        with told("read", self._shown(name)):
            system, root = self._open()
            return bytes(system.cat_file(f"{root}/{name}"))

    def delete(self, name: str) -> None:
        with told("delete", self._shown(name)), contextlib.suppress(FileNotFoundError):
            system, root = self._open()
            system.rm_file(f"{root}/{name}")

    def names(self) -> Iterator[str]:
        with told("list", self._shown("")):
            system, root = self._open()
            system.invalidate_cache()  # others write there too
            try:
                found = system.find(root)
            except FileNotFoundError:
                return
            for path in found:
                yield str(path).removeprefix(root).lstrip("/")

    def sweep(self) -> None:
        """A storage of objects shows none before it is whole."""

    def check_reach(self) -> None:
        """The package that knows this kind of storage must be installed."""
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
            raise JobError(
                f"{scheme}:// is no storage that fsspec knows; expected a local folder, s3://bucket/folder, "
                "gs://bucket/folder, ..."
            ) from None

    def _open(self) -> tuple[Any, str]:
        """Anew each time: fsspec keeps what it opened, one for each process."""
        import fsspec  # noqa: PLC0415

        system, root = fsspec.url_to_fs(self.url)
        return system, root.rstrip("/")

    def _shown(self, name: str) -> str:
        """Without what may be a password."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path}/{name}".rstrip("/")


class StoreFolder(Protocol):
    """Names are relative paths with `/`."""

    @property
    def is_local(self) -> bool: ...

    def path(self, name: str) -> str: ...

    def write(self, name: str, data: bytes) -> None:
        """When this returns, the file is durable; until then, the one that was there before is."""
        ...

    def read(self, name: str) -> bytes: ...

    def delete(self, name: str) -> None:
        """A file that is not there is fine."""
        ...

    def names(self) -> Iterator[str]: ...

    def sweep(self) -> None:
        """Remove files that were half written when their writer died. Nobody writes now."""
        ...

    def check_reach(self) -> None:
        """Raises if this machine cannot have the folder. Cheap: nothing is written, nobody is asked."""
        ...


def open_folder(where: str | Path) -> StoreFolder:
    """Nothing is touched yet. A local path becomes absolute: other processes have other working folders."""
    text = os.fspath(where)
    if "://" not in text or text.startswith("file://"):
        return LocalFolder(root=str(Path(text.removeprefix("file://")).expanduser().absolute()))
    folder = RemoteFolder(url=text.rstrip("/"))
    folder.check_reach()
    return folder
