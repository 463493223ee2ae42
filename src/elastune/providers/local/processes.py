"""Finding and ending every process of a fleet, whoever started it.

Raylets start workers, workers start whatever user code likes. All inherit the environment, so they are found
by what it says: which fleet, and which node. A process id that is stale, or was given to somebody else
meanwhile, can therefore not be hit. Without /proc (macOS) nothing is found, and Ray's own clean-up has to do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

FLEET = "ELASTUNE_FLEET"
"""In the environment of every process of a fleet: its folder."""
NODE = "ELASTUNE_NODE"
"""In that of every process of a node: its name."""
KEEP_READABLE = {"SPT_NOENV": "1"}
"""Ray gives its processes titles, and would write them over the environment."""

_PROC = Path("/proc")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def tagged(tag: str, value: str) -> tuple[int, ...]:
    """All living processes that have this in their environment."""
    wanted = os.fsencode(f"{tag}={value}")
    return tuple(pid for pid in _pids() if wanted in _read(pid, "environ").split(b"\0"))


def can_look() -> bool:
    """Whether processes can be found by their environment here."""
    return _PROC.is_dir()


def fleets() -> dict[str, dict[int, str | None]]:
    """By the folder of each fleet that has a living process: its processes, and the node of each."""
    found: dict[str, dict[int, str | None]] = {}
    for pid in _pids():
        words = (word.partition(b"=") for word in _read(pid, "environ").split(b"\0"))
        said = {os.fsdecode(name): os.fsdecode(value) for name, _, value in words}
        if FLEET in said:
            found.setdefault(said[FLEET], {})[pid] = said.get(NODE)
    return found


def started(pid: int) -> float | None:
    """When a process began, in seconds since 1970; None: it is gone."""
    try:
        # The name of the program is in parentheses and may have spaces. The 22nd field: ticks since boot.
        ticks = _read(pid, "stat").rpartition(b")")[2].split()[19]
        booted = next(line for line in (_PROC / "stat").read_bytes().splitlines() if b"btime" in line)
        return int(booted.split()[1]) + int(ticks) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, StopIteration):
        return None


def kill_all(tag: str, value: str, *, patience_s: float = 5.0) -> None:
    """End them all at once, but not the caller, and do not come back before they are gone."""
    until_s = time.monotonic() + patience_s
    while found := [pid for pid in tagged(tag, value) if pid != os.getpid()]:
        for pid in found:
            kill(pid)
        if time.monotonic() > until_s:
            return
        time.sleep(0.005)


def kill(pid: int, what: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that may be gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)


def reap() -> set[int]:
    """The children of this process that have ended since the last call."""
    ended = set()
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            ended.add(pid)
    return ended


def adopt_orphans() -> None:
    """What a dead raylet leaves behind becomes our child, so that no zombie stays where nobody reaps."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def dying_with_parent() -> Callable[[], None]:
    """To be called in a new child: the kernel kills it when its parent dies, be it by `kill -9`.

    More exactly, when the *thread* that started it ends: only the keeper's main thread may start nodes.
    """
    parent = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def bind() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we could say so
            os._exit(1)

    return bind


def _pids() -> Iterator[int]:
    if _PROC.is_dir():
        yield from (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _read(pid: int, name: str) -> bytes:
    """Nothing for a process that is gone, a zombie, or not ours to look into."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
