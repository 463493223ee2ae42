"""A process of the driver's machine that imports the heavy libraries once, for all nodes there.

It starts before Ray does and imports meanwhile. Each node that the driver's machine starts asks it for a fork
server (see `fork_server`), which is forked from it and so has everything imported. A node that cannot reach
it, or has another interpreter, imports by itself. When the driver ends, it ends; fork servers
belong to their nodes and stay. Linux only: elsewhere there is none.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NoReturn

from elastune.runtime.ray import fork_server
from elastune.runtime.ray.messages import WarmAddress

_COMMAND = (sys.executable, "-u", "-m", "elastune.runtime.ray.warm_process")
_MOST_WAITING = 128
_CREDENTIALS = struct.Struct("3i")
"""Of a process: its id, its user, its group."""


class WarmProcess:
    """The process as the driver has it. `paths`, `preload`: see `WorkerSpec`."""

    def __init__(self, paths: Sequence[str], preload: Sequence[str], threads: int) -> None:
        """Raises `OSError` where there can be none."""
        name = f"elastune-{secrets.token_hex(16)}"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(f"\0{name}")
            listener.listen(_MOST_WAITING)  # nodes may ask before it has imported anything
            handles = (listener.fileno(), theirs.fileno())
            self._process = subprocess.Popen(  # noqa: S603  our own module
                [*_COMMAND, *map(str, handles), str(os.getpid())],
                pass_fds=handles,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **fork_server.thread_limits(threads)},
                start_new_session=True,
            )
        self._driver = Connection(ours.detach())
        self._driver.send((tuple(paths), tuple(preload)))
        self.address = WarmAddress(name=name, interpreter=sys.executable)

    def close(self) -> None:
        self._driver.close()
        self._process.kill()
        self._process.wait()


# In the process itself.


@dataclass(frozen=True, slots=True)
class _Doors:
    listener: socket.socket
    driver: Connection


def main(arguments: Sequence[str]) -> None:
    """Started as `python -m elastune.runtime.ray.warm_process <listener> <driver> <pid of the driver>`."""
    listener, driver, parent = map(int, arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(parent)
    doors = _Doors(socket.socket(fileno=listener), Connection(driver))
    paths, preload = doors.driver.recv()
    before = dict(os.environ)
    fork_server.prepare(paths, preload)
    set_by_imports = {name: value for name, value in os.environ.items() if before.get(name) != value}
    # The kernel removes the fork servers that have ended. Not earlier: imports may run commands.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        readable, _, _ = select.select([doors.listener.fileno(), doors.driver.fileno()], [], [])
        if doors.driver.fileno() in readable:
            os._exit(0)
        asking, _ = doors.listener.accept()
        with asking:
            if _is_of_our_user(asking) and not os.fork():
                _become_fork_server(asking, doors, set_by_imports)


def _die_with(parent: int) -> None:
    """Also amid an import, when it does not read its channel."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(fork_server.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _is_of_our_user(asking: socket.socket) -> bool:
    """Sockets without a file have no permissions."""
    credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(user == os.getuid())


def _become_fork_server(asking: socket.socket, doors: _Doors, set_by_imports: Mapping[str, str]) -> NoReturn:
    """In the child; never returns."""
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        doors.listener.close()
        doors.driver.close()
        _, handles, _, _ = socket.recv_fds(asking, 1, 2)
        for number, handle in enumerate(handles, start=1):
            os.dup2(handle, number)
            os.close(handle)
        channel = Connection(asking.detach())
        surroundings: fork_server.Surroundings = pickle.loads(channel.recv_bytes())  # noqa: S301  from our node
        os.environ.clear()
        os.environ.update({**surroundings.environment, **set_by_imports})
        with contextlib.suppress(
            OSError
        ):  # Ray's score of its workers, which are to be ended before the driver
            fork_server.OOM_SCORE.write_text(surroundings.oom_score, encoding="ascii")
        os.chdir(surroundings.folder)
        os.nice(max(0, surroundings.niceness - os.nice(0)))
        fork_server.serve(channel, surroundings.host)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
