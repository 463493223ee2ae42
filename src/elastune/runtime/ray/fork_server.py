"""A process that imports the heavy libraries once and forks the slot processes of its node.

It has one thread, so that forking is safe, and it talks over one socket: a fork request comes with the
child's own socket; the exit of a child is told with its status. When the socket closes it ends, and its
children, whose sockets close as well, end by themselves.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pickle
import select
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle

from elastune.runtime.ray.code_bundle import CodeFolder
from elastune.runtime.ray.messages import WorkerSpec

_PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> None:
    """Started as `python -m elastune.runtime.ray.fork_server <fd> <host> <niceness>`."""
    number, host, niceness = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(int(niceness))
    channel = Connection(int(number))
    worker_spec: WorkerSpec = pickle.loads(channel.recv_bytes())  # noqa: S301  from whoever started us
    place: CodeFolder | None = pickle.loads(channel.recv_bytes())  # noqa: S301
    worker_spec = replace(
        worker_spec if place is None else place.furnish(worker_spec), host=worker_spec.host or host
    )
    prepare(worker_spec)
    channel.send(("ready", os.getpid(), 0))
    ends, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    while True:
        readable, _, _ = select.select([channel.fileno(), ends], [], [])
        if ends in readable:
            os.read(ends, 4096)
            _tell_ended(channel)
        if channel.fileno() in readable:
            try:
                slot = channel.recv()
            except (EOFError, OSError):
                os._exit(0)
            handle = recv_handle(channel)
            _fork(channel, slot, handle, worker_spec)


def prepare(worker_spec: WorkerSpec) -> None:
    """Import what every slot needs. What cannot be imported is told by the slots, which need it."""
    for folder in worker_spec.paths:
        if folder not in sys.path:
            sys.path.append(folder)
    importlib.import_module("elastune.runtime.ray.slot")
    for module in worker_spec.preload:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    if "torch" in sys.modules:
        from elastune.training.running import warm_up  # noqa: PLC0415

        warm_up()


def _die_with_parent() -> None:
    """Linux ends us with the zygote, also where a library of the user holds the interpreter's lock."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _fork(channel: Connection, slot: int, handle: int, worker_spec: WorkerSpec) -> None:
    pid = os.fork()
    if pid:
        os.close(handle)
        channel.send(("forked", slot, pid))
        return
    try:
        os.setpgid(0, 0)  # with whatever the user's code starts, so that all can be ended together
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(channel.fileno())
        _die_with_parent()
        from elastune.runtime.ray import slot as slots  # noqa: PLC0415  imported before the fork

        slots.main(Connection(handle), slot, worker_spec)
    finally:
        os._exit(1)


def _tell_ended(channel: Connection) -> None:
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
