"""The processes and the private folder of a local fleet, and the inventory of all fleets of this machine.

Raylets, workers and what user code starts all inherit the environment, which names fleet and node. Processes
are found by it, so a stale or reused process id is never hit. Without /proc (macOS) nothing is found, and
only Ray's own clean-up works.

The folder has Ray's sockets and logs and the token. It is in /tmp whatever TMPDIR is, because the path of a
Unix socket is limited to about 100 characters. Driver and supervisor hold a shared lock on it, which the
kernel drops when they end. A folder without a lock was left by both being killed; the next fleet removes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import getpass
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Self

from elastune.providers.protocol import LiveInstance, UnseenError
from elastune.wording import plural

FLEET = "ELASTUNE_FLEET"
"""In the environment of every process of a fleet: its folder."""
NODE = "ELASTUNE_NODE"
"""In that of every process of a node: its name."""
KEEP_READABLE = {"SPT_NOENV": "1"}
"""Ray gives its processes titles, which would overwrite the environment in /proc."""

_PROC = Path("/proc")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def tagged(tag: str, value: str) -> tuple[int, ...]:
    """All processes that have this in their environment."""
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
        variables = {os.fsdecode(name): os.fsdecode(value) for name, _, value in words}
        if FLEET in variables:
            found.setdefault(variables[FLEET], {})[pid] = variables.get(NODE)
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
    """End them all at once, except the caller, and wait until they are gone."""
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
    """Children of a dead raylet become ours, so that `reap` removes them and no zombie stays."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def dying_with_parent() -> Callable[[], None]:
    """To be called in a new child: the kernel kills it when its parent ends, even by `kill -9`.

    More exactly, when the *thread* that started it ends: only the supervisor's main thread may start nodes.
    """
    parent = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def bind() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the call above
            os._exit(1)

    return bind


def _pids() -> Iterator[int]:
    if _PROC.is_dir():
        yield from (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _read(pid: int, name: str) -> bytes:
    """Empty for a process that is gone, a zombie, or not readable for this user."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


_HOME = Path("/tmp")  # noqa: S108 - see above; mkdtemp makes a private folder
_PREFIX = "elastune-ray-"
_RUN = "run"
SESSION = "session"
"""The name of Ray's session in the folder of a fleet."""
_MOST_LOG_BYTES = 20_000


class FleetFolder:
    """Locked by this process."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.token = path / "token"
        self.log = path / "supervisor.log"
        self.ray_logs = path / "ray" / SESSION / "logs"
        self._lock: int | None = lock

    @classmethod
    def make(cls, run: str = "") -> Self:
        """`run`: the owner of the nodes, for `run_of`."""
        sweep()
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_HOME))
        # Locked before the lock file gets the name that `sweep` opens.
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
        """For the supervisor: the folder that its driver made."""
        lock = os.open(path / "lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_SH)
        return cls(path, lock)

    def node_log(self, node: str) -> str:
        """The end of what the processes of a node wrote; empty: nothing."""
        texts = []
        for kind in ("out", "err"):
            with contextlib.suppress(OSError):
                data = (self.ray_logs / f"raylet-{node}.{kind}").read_bytes()[-_MOST_LOG_BYTES:]
                texts.append(data.decode(errors="replace"))
        return "\n".join(text.strip() for text in texts if text.strip())

    def remove(self) -> None:
        """May be repeated, also by the other process."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def sweep() -> None:
    """Remove the unlocked folders of this user, and end their processes."""
    for path in _HOME.glob(f"{_PREFIX}*"):
        with _try_lock(path) as is_ours:
            if is_ours:
                kill_all(FLEET, str(path))
                shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _try_lock(path: Path) -> Iterator[bool | None]:
    """Lock a folder exclusively. False: in use; None: another user's, just being made, or gone."""
    try:
        lock = os.open(path / "lock", os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        yield None
        return
    is_ours = False
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = True
    try:
        yield is_ours
    finally:
        os.close(lock)


def run_of(path: Path) -> str | None:
    """The run that owns the fleet in this folder."""
    try:
        return (path / _RUN).read_text(encoding="utf-8") or None
    except OSError:
        return None


def is_held(path: Path) -> bool:
    """Whether the driver or the supervisor of the fleet in this folder lives."""
    with _try_lock(path) as is_ours:
        return path.exists() if is_ours is None else not is_ours


_HEAD = "head"


class LocalInventory:
    """A node is a group of processes. The head of a fleet, with all that belongs to no node, is one, too."""

    def instances(self) -> tuple[LiveInstance, ...]:
        if not can_look():
            raise UnseenError("this system has no /proc, so processes cannot be listed", is_absent=True)
        return tuple(
            _live_instance(folder, node, pids)
            for folder, processes in sorted(fleets().items())
            for node, pids in _by_node(processes).items()
        )

    def end(self, nodes: Collection[str]) -> None:
        """With the head of a fleet, all its nodes end."""
        for name in nodes:
            fleet, _, node = name.rpartition("/")
            tag = (FLEET, fleet) if node == _HEAD else (NODE, node)
            kill_all(*tag)


def _live_instance(folder: str, node: str, pids: Collection[int]) -> LiveInstance:
    path = Path(folder)
    return LiveInstance(
        provider="local",
        node=f"{folder}/{node}",
        run=run_of(path),
        owner=getpass.getuser(),
        kind=plural(len(pids), "process").replace("processs", "processes"),
        state="running",
        since=min((at for pid in pids if (at := started(pid)) is not None), default=time.time()),
        is_kept=path.exists() and is_held(path),
    )


def _by_node(processes: dict[int, str | None]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for pid, node in sorted(processes.items()):
        found.setdefault(node or _HEAD, []).append(pid)
    return dict(sorted(found.items(), key=lambda item: (item[0] != _HEAD, item[0])))
