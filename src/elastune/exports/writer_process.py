"""A log writer in a process of its own, for libraries that hook into the process which uses them.

W&B starts a service and waits for it when the process exits, for as long as its server does not answer. The
run must end in any case, so only this process waits, and ends some minutes after the run even if the server
never answers. Messages are pickled and go over a socket pair; each is answered with an error or with None.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection

from elastune.errors import ExecutionError
from elastune.exports.files import LogWriter, RunNews

_COMMAND = (sys.executable, "-m", "elastune.exports.writer_process")
# After the run: how long the process may go on with what it has been told.
_MOST_S = 600.0
_LAST_WAIT_S = 5.0


class WriterProcess:
    """A `LogWriter` whose `opener` is called in a new process; it must be picklable."""

    def __init__(self, opener: Callable[[], LogWriter], *, where: str) -> None:
        self.where = where
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  our own module
                [*_COMMAND, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,  # nothing is asked
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C is for the run
            )
        self._channel = Connection(ours.detach())
        self._ask(opener)

    @property
    def pid(self) -> int:
        return self._process.pid

    def update(self, news: RunNews) -> None:
        self._ask(news)

    def close(self) -> None:
        self._ask(None)
        self._channel.close()
        self._process.wait()

    def _ask(self, message: object) -> None:
        try:
            self._channel.send(message)
            error = self._channel.recv()
        except (EOFError, OSError):
            error = f"its process {self.pid} ended with status {self._end()}"
        if error is not None:
            self._end()
            raise ExecutionError(error)

    def _end(self) -> int | None:
        """After an error: the process ends by itself."""
        self._channel.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WAIT_S)
        return self._process.returncode


def _serve(channel: Connection) -> None:
    """Until the channel closes; the first message is the opener, None is the last one."""
    writer: LogWriter | None = None
    while True:
        try:
            message = channel.recv()
        except (EOFError, OSError):  # the run is over, one way or another
            if writer is not None:
                writer.close()
            return
        try:
            if writer is None:
                writer = message()
            elif message is None:
                writer.close()
            else:
                writer.update(message)
        except Exception as error:  # noqa: BLE001  libraries and servers may raise anything
            _answer(channel, f"{type(error).__name__}: {error}")
            os._exit(1)  # what the library does at an exit may wait for ever
        _answer(channel, None)
        if message is None:
            return


def _answer(channel: Connection, error: str | None) -> None:
    with suppress(OSError):
        channel.send(error)


def _limit_life(parent: int) -> None:
    """End this process if its run is over and it still waits for a server."""
    gone, ticks = threading.Event(), 0.0
    while ticks < _MOST_S:
        gone.wait(1.0)
        ticks = ticks + 1.0 if os.getppid() != parent else 0.0
    os._exit(1)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_limit_life, args=(os.getppid(),), daemon=True).start()
    _serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
