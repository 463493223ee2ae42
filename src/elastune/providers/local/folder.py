"""The private folder of one fleet: Ray's sockets and logs, and the token without which nobody gets in.

It lies in /tmp whatever TMPDIR says, because the path of a Unix socket must not exceed about 100 characters.
Whoever uses it holds a shared lock on it; the kernel drops that with the process, however it ends. So a
folder that nobody has locked was left behind by a driver and a keeper that were killed together, and is swept
by the next fleet.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Self

from elastune.providers.local.processes import FLEET, kill_all

_HOME = Path("/tmp")  # noqa: S108 - see above; mkdtemp makes it ours alone
_PREFIX = "elastune-ray-"
_RUN = "run"


class Folder:
    """One that this process has locked."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.token = path / "token"
        self.log = path / "keeper.log"
        self._lock: int | None = lock

    @classmethod
    def make(cls, run: str = "") -> Self:
        """`run`: whose nodes will be kept here, for people who look."""
        sweep()
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_HOME))
        # Locked before it has the name that a sweep looks for.
        lock = os.open(path / "new", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)
        (path / "new").rename(path / "lock")
        folder = cls(path, lock)
        descriptor = os.open(folder.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
        (path / _RUN).write_text(run, encoding="utf-8")
        return folder

    @classmethod
    def join(cls, path: Path) -> Self:
        """For the keeper: the folder that its driver made."""
        lock = os.open(path / "lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_SH)
        return cls(path, lock)

    def remove(self) -> None:
        """Also if another has removed it already."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def sweep() -> None:
    """Remove the folders of this user that nobody uses, and end what may still run out of them."""
    for path in _HOME.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(path / "lock", os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # of somebody else, just being made, or just gone
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        else:
            kill_all(FLEET, str(path))
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def folders() -> tuple[Path, ...]:
    """Of all fleets of this user that have one."""
    return tuple(path for path in sorted(_HOME.glob(f"{_PREFIX}*")) if os.access(path, os.R_OK | os.X_OK))


def run_of(path: Path) -> str | None:
    """Whose nodes are kept there."""
    try:
        return (path / _RUN).read_text(encoding="utf-8") or None
    except OSError:
        return None


def is_held(path: Path) -> bool:
    """Whether a driver or a keeper lives that looks after the fleet in this folder."""
    try:
        lock = os.open(path / "lock", os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # just being made, or gone
        return path.exists()
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
