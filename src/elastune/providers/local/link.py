"""The driver's end of the line to its keeper."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable

from elastune.errors import InvariantError
from elastune.providers.local.connection import ray_environment
from elastune.providers.local.folder import Folder
from elastune.providers.local.messages import End, News, Order, Start, Task, decode, encode
from elastune.providers.local.processes import FLEET, KEEP_READABLE, kill_all

_PATIENCE_S = 10.0


class KeeperLink:
    """A keeper process; what it says is handed on as it comes, by a thread of its own.

    `on_end` is called once, when it says no more, with the end of its log. By then all it owned is dead.
    """

    def __init__(
        self, task: Task, folder: Folder, *, on_news: Callable[[News], None], on_end: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._on_news = on_news
        self._on_end = on_end
        with folder.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-m", "elastune.providers.local.keeper", task.to_json()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=ray_environment(folder, os.environ) | KEEP_READABLE | {FLEET: task.folder},
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, name="elastune-keeper", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, order: Order) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it is gone, as `on_end` tells
            self._process.stdin.write(encode(order))
            self._process.stdin.flush()

    def close(self) -> None:
        """End the keeper and with it the fleet."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        kill_all(FLEET, str(self._folder.path))
        self._listener.join(_PATIENCE_S)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                match decode(line):
                    case Start() | End():
                        raise InvariantError(f"the keeper sent an order: {line!r}")
                    case news:
                        self._on_news(news)
        last_words = self._last_words()
        # If it was killed, those that it owned die with it; what does not is ended here.
        self._process.wait()
        kill_all(FLEET, str(self._folder.path))
        self._on_end(last_words)

    def _last_words(self) -> str:
        try:
            lines = self._folder.log.read_text(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
