"""A place for files by name: a local folder, or anything that fsspec can reach.

What the files are called is decided in `store`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from elastune.checkpoints.local_folder import LocalFolder
from elastune.checkpoints.remote_folder import RemoteFolder


class Folder(Protocol):
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


def open_folder(where: str | Path) -> Folder:
    """Nothing is touched yet. A local path becomes absolute: other processes have other working folders."""
    text = os.fspath(where)
    if "://" not in text or text.startswith("file://"):
        return LocalFolder(root=str(Path(text.removeprefix("file://")).expanduser().absolute()))
    folder = RemoteFolder(url=text.rstrip("/"))
    folder.check_reach()
    return folder
