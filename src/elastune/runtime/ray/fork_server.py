"""A process per node that has imported the heavy libraries and forks the slot processes of the node.

It imports them itself or, on the driver's machine, is forked from a `warm_process`, which has done so. It has
one thread, so that forking is safe, and one socket, the fork channel: a fork request comes with the child's
own socket; the exit of a child is reported with its status. When the channel closes, the process exits; its
children exit as well, because their sockets close. `ForkServer` is the side that starts it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import NamedTuple, NoReturn

from elastune.runtime.ray.code_bundle import CodeFolder
from elastune.runtime.ray.messages import Sealed, WorkerSpec

PR_SET_PDEATHSIG = 1
OOM_SCORE = Path("/proc/self/oom_score_adj")
_COMMAND = (sys.executable, "-u", "-m", "elastune.runtime.ray.fork_server")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def thread_limits(threads: int) -> dict[str, str]:
    return dict.fromkeys(_THREADS, str(threads))


class Surroundings(NamedTuple):
    """What a fork server of the warm process takes over from its node; the output comes as file handles."""

    host: str
    niceness: int
    oom_score: str
    """How likely a victim a process is when memory is short; empty: not known."""
    folder: str
    environment: Mapping[str, str]


class ForkServer:
    """The process and its fork channel, as its node has them.

    `host` is the address of this machine; `output`: a file for what is printed outside of trials, None: this
    process's own output; `place`: where the slots work, if this is not the driver's machine.
    """

    def __init__(
        self, sealed: Sealed, host: str, niceness: int, output: str | None, place: CodeFolder | None
    ) -> None:
        self._sealed, self._host, self._niceness, self._output, self._place = (
            sealed,
            host,
            niceness,
            output,
            place,
        )
        self.pid: int | None = None
        """Known from its first message on."""
        self._process: subprocess.Popen[bytes] | None = None
        channel = None if output or place is not None else self._ask_warm_process()
        self.channel = channel or self._start()
        self._send_spec()

    def start_alone(self) -> bool:
        """In place of one that the warm process did not fork; False: it cannot be that."""
        if self._process is not None or self.pid is not None:
            return False
        self.channel.close()
        self.channel = self._start()
        self._send_spec()
        return True

    def _ask_warm_process(self) -> Connection | None:
        """The channel of a new fork server, which waits while the process imports; None: there is none."""
        address = self._sealed.warm
        if address is None or address.interpreter != sys.executable:
            return None
        asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            asking.connect(f"\0{address.name}")
            socket.send_fds(asking, [b"!"], [1, 2])
        except OSError:
            asking.close()
            return None
        channel = Connection(asking.detach())
        surroundings = Surroundings(
            host=self._host,
            niceness=os.nice(0) + self._niceness,
            oom_score=_oom_score(),
            folder=os.getcwd(),  # noqa: PTH109  as a word
            environment={**os.environ, **thread_limits(self._sealed.threads)},
        )
        with contextlib.suppress(OSError):  # it has ended; the channel will say so
            channel.send_bytes(pickle.dumps(surroundings))
        return channel

    def _start(self) -> Connection:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        output, place = self._output, self._place
        with open(output, "ab") if output else contextlib.nullcontext() as file:  # noqa: PTH123
            self._process = subprocess.Popen(  # noqa: S603  our own module
                [*_COMMAND, str(theirs.fileno()), self._host, str(self._niceness)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **thread_limits(self._sealed.threads)},
                cwd=None if place is None else place.home,  # which is first on its path as well
                start_new_session=True,
            )
        theirs.close()
        self.pid = self._process.pid
        return Connection(ours.detach())

    def _send_spec(self) -> None:
        with contextlib.suppress(OSError):  # it has ended; the channel will say so
            self.channel.send_bytes(self._sealed.worker_spec)
            self.channel.send_bytes(pickle.dumps(self._place))

    def fork(self, slot: int) -> tuple[Connection, bool]:
        """Our end of the new child's channel, and whether the process took the request."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        channel = Connection(ours.detach())
        with theirs:
            try:
                self.channel.send(slot)
                send_handle(self.channel, theirs.fileno(), self.pid or 0)
            except OSError:
                return channel, False
        return channel, True

    def close(self) -> None:
        """It exits when its channel closes. If it is no child of ours, its id may be another's meanwhile."""
        self.channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _oom_score() -> str:
    try:
        return OOM_SCORE.read_text(encoding="ascii")
    except OSError:
        return ""


def kill(pid: int) -> None:
    """End a slot process and its process group: all that the user's code has started."""
    for end in (os.killpg, os.kill):  # a new process may not have its group yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(pid, signal.SIGKILL)


def describe_exit(status: int | None) -> tuple[str, bool]:
    """Why a process ended, and whether its own code is to blame: these signals come from outside."""
    if status is None:
        return "the worker process ended", True
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        if number in {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
            hint = " (by a user, or the machine ran out of memory)" if number == signal.SIGKILL else ""
            return f"the worker process was ended by {name}{hint}", False
        return f"the worker process crashed with {name}", True
    return f"the worker process ended by itself with exit code {os.WEXITSTATUS(status)}", True


# In the process itself.


def main(arguments: Sequence[str]) -> None:
    """Started as `python -m elastune.runtime.ray.fork_server <fd> <host> <niceness>`."""
    number, host, niceness = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(int(niceness))
    serve(Connection(int(number)), host, is_warm=False)


def serve(channel: Connection, host: str, *, is_warm: bool = True) -> NoReturn:
    """Until the channel closes. `is_warm`: everything is imported."""
    worker_spec: WorkerSpec = pickle.loads(channel.recv_bytes())  # noqa: S301  from our node
    place: CodeFolder | None = pickle.loads(channel.recv_bytes())  # noqa: S301
    worker_spec = replace(
        worker_spec if place is None else place.relocate(worker_spec), host=worker_spec.host or host
    )
    if not is_warm:
        prepare(worker_spec.paths, worker_spec.preload)
    channel.send(("ready", os.getpid(), 0))
    ends, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    while True:
        readable, _, _ = select.select([channel.fileno(), ends], [], [])
        if ends in readable:
            os.read(ends, 4096)
            _report_exits(channel)
        if channel.fileno() in readable:
            try:
                slot = channel.recv()
            except (EOFError, OSError):
                os._exit(0)
            handle = recv_handle(channel)
            _fork(channel, slot, handle, worker_spec)


def prepare(paths: Sequence[str], preload: Sequence[str]) -> None:
    """Import what every slot needs. The slots report what cannot be imported."""
    for folder in paths:
        if folder not in sys.path:
            sys.path.append(folder)
    importlib.import_module("elastune.runtime.ray.slot")
    for module in preload:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    if "torch" in sys.modules:
        from elastune.training.running import warm_up  # noqa: PLC0415

        warm_up()


def _fork(channel: Connection, slot: int, handle: int, worker_spec: WorkerSpec) -> None:
    pid = os.fork()
    if pid:
        os.close(handle)
        channel.send(("forked", slot, pid))
        return
    try:
        os.setpgid(0, 0)  # with what the user's code starts, so that all can be ended together
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(channel.fileno())
        # Linux ends us with the fork server, also while a library of the user holds the interpreter's lock.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        from elastune.runtime.ray import slot as slots  # noqa: PLC0415  imported before the fork

        slots.main(Connection(handle), slot, worker_spec)
    finally:
        os._exit(1)


def _report_exits(channel: Connection) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        with contextlib.suppress(OSError):
            channel.send(("ended", pid, status))


if __name__ == "__main__":
    main(sys.argv[1:])
