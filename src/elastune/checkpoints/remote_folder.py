"""A folder elsewhere: whatever fsspec can reach."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from elastune.checkpoints.failures import told
from elastune.errors import JobError

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
