"""A folder of this machine, or one that all machines share: written once, whole, and to stay."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elastune.checkpoints.failures import told
from elastune.errors import ExecutionError


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
