"""Serves the dashboard until it is interrupted, or beside a run until the run's process ends."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn

from elastune.dashboard.app import make_app
from elastune.dashboard.guard import Access, keep_token
from elastune.dashboard.protocol import configuration
from elastune.dashboard.site import Site
from elastune.errors import JobError

PORT = 8642
_TRIED_PORTS = 50
_WATCH_EVERY_S = 2.0


def bind(host: str, port: int | None) -> socket.socket:
    """The asked port, or the first free one from the usual one on."""
    wanted = range(PORT, PORT + _TRIED_PORTS) if port is None else (port,)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    error: OSError | None = None
    for number in wanted:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
        except OSError as cause:
            listening.close()
            error = cause
        else:
            return listening
    raise JobError(f"the dashboard cannot listen at {host}, port {wanted[0]}: {error}; choose another --port")


def serve(
    root: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    read_only: bool = False,
    say: Callable[[str], object],
    show: Callable[[str], object] | None = None,
    parent: int | None = None,
) -> None:
    """`say` gets the address with its token, once; `show`, which starts a browser, one that is valid once.
    `parent`: end when this process ends."""
    if root.exists() and not root.is_dir():
        raise JobError(f"{root} is a file; expected the folder in which runs are kept, such as elastune-runs")
    listening = bind(host, port)
    listening.listen()  # a browser that is faster than the server waits
    access = Access(host=host, port=listening.getsockname()[1], read_only=read_only)
    kept = keep_token(access)
    site = Site(root=root, access=access)
    server = _Server(configuration(make_app(site)), site.ending)
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent, server), daemon=True).start()
    _end_by_signals(server)
    try:
        say(f"{access.address}?token={access.token}")
        if show is not None:
            show(f"{access.address}?token={access.token_for_once()}")
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
        if kept is not None:
            kept.unlink(missing_ok=True)


class _Server(uvicorn.Server):
    """Ends its streams with it: a stream that is cut off is an error to uvicorn."""

    def __init__(self, config: uvicorn.Config, ending: threading.Event) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending.set()
        await super().shutdown(sockets)


def _end_by_signals(server: uvicorn.Server) -> None:
    """`kill` and a closed terminal end it in order, so that the file with the token is removed. uvicorn
    handles them only while it serves, and sends them again afterwards. An exception could be lost in an
    import."""

    def end(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, end)


def _end_with(parent: int, server: uvicorn.Server) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_EVERY_S)
    server.should_exit = True
