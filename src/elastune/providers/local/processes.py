"""Finding and ending every process of a fleet, whoever started it.

Raylets start workers, workers start whatever user code likes. All inherit the environment, so they are found
by what it says: which fleet, and which node. A process id that is stale, or was given to somebody else
meanwhile, can therefore not be hit. Without /proc (macOS) nothing is found, and Ray's own clean-up has to do.

The private folder of one fleet: Ray's sockets and logs, and the token without which nobody gets in.

It lies in /tmp whatever TMPDIR says, because the path of a Unix socket must not exceed about 100 characters.
Whoever uses it holds a shared lock on it; the kernel drops that with the process, however it ends. So a
folder that nobody has locked was left behind by a driver and a keeper that were killed together, and is swept
by the next fleet.

The nodes of this machine, whoever started them: fleets of processes, found by their environment.
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


_HOME = Path("/tmp")  # noqa: S108 - see above; mkdtemp makes it ours alone
_PREFIX = "elastune-ray-"
_RUN = "run"


class FleetFolder:
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


_HEAD = "head"


class LocalInventory:
    """A node is a group of processes. The head of a fleet, with whatever belongs to no node, is one, too."""

    def instances(self) -> tuple[LiveInstance, ...]:
        if not can_look():
            raise UnseenError("processes cannot be looked into on this system", is_absent=True)
        return tuple(
            self._sighting(folder, node, pids)
            for folder, processes in sorted(fleets().items())
            for node, pids in _by_node(processes).items()
        )

    def end(self, nodes: Collection[str]) -> None:
        """The head of a fleet takes all its nodes along."""
        for name in nodes:
            fleet, _, node = name.rpartition("/")
            if node == _HEAD:
                kill_all(FLEET, fleet)
            else:
                kill_all(NODE, node)

    def _sighting(self, folder: str, node: str, pids: Collection[int]) -> LiveInstance:
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
