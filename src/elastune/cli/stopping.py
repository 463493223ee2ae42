"""Ctrl-C in a long command: the first one ends it where nothing is half done, a second one at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self

# As shells have it: 128 and the number of the signal.
INTERRUPTED = 128 + signal.SIGINT


class Stopping:
    """`check` is called at safe points, and raises KeyboardInterrupt if somebody asked. Before the first one
    there is nothing to lose, and Ctrl-C does what it always does."""

    def __init__(self) -> None:
        self._asked = False
        self._under_way = False
        self._before: object = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if callable(self._before) or isinstance(self._before, int):
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        self._under_way = True
        if self._asked:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked or not self._under_way:
            raise KeyboardInterrupt
        self._asked = True
