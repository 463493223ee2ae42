"""A lock that lives as long as its process: beside the journal, one file per run that is being written.

It is a file of its own because closing any handle of a database file drops SQLite's own locks on it
(https://www.sqlite.org/howtocorrupt.html, 2.2). The kernel lets go of it when the process dies, in
whatever way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

# `writer_of` holds the lock for an instant, too; whoever wants to write looks again before giving up.
_PATIENCE_S = 0.5
_PAUSE_S = 0.02


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Whether the lock was free; if so it is held until the end of the block, and its file goes with it."""
    handle = _acquire(path)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            path.unlink(missing_ok=True)
            os.close(handle)


def writer_of(path: Path) -> str | None:
    """Who holds the lock. A file that a crash left behind is held by nobody."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if _try(handle, fcntl.LOCK_SH):
            return None
        return os.read(handle, 500).decode(errors="replace").strip() or "another process"
    finally:
        os.close(handle)


def _acquire(path: Path) -> int | None:
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if _try(handle, fcntl.LOCK_EX) and _is_still(path, handle):
            os.truncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            return handle
        os.close(handle)
        if time.monotonic() > give_up:
            return None
        time.sleep(_PAUSE_S)


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, handle: int) -> bool:
    """Between opening and locking, the former holder may have removed the file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
