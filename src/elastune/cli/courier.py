"""A terminal or a pipe that stands still must not stop the run that is shown there."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import IO, Any

_GOODBYE_S = 2.0


class Courier:
    """A text file to write to: a thread brings what is written to the stream, as fast as that takes it.

    Somebody may have pressed Ctrl-S, or an ssh client may sleep; then a write to the stream blocks for ever.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._texts: deque[str] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._broken = False
        self._thread: threading.Thread | None = None

    @property
    def is_behind(self) -> bool:
        """What was written before has not arrived: a picture more would only wait."""
        return bool(self._texts) or self._busy

    def write(self, text: str) -> int:
        if text and not self._broken:
            with self._changed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._bring, name="terminal", daemon=True)
                    self._thread.start()
                self._texts.append(text)
                self._changed.notify()
        return len(text)

    def flush(self) -> None:
        """Happens by itself."""

    def settle(self, patience_s: float = _GOODBYE_S) -> None:
        """Wait until all has arrived, but not for a stream that takes nothing."""
        until = time.monotonic() + patience_s
        with self._changed:
            while self.is_behind and not self._broken and (left_s := until - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def _bring(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._texts)
                text = "".join(self._texts)
                self._texts.clear()
                self._busy = True
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):  # the terminal or the pipe is gone
                self._broken = True
                self._texts.clear()

    def __getattr__(self, name: str) -> Any:
        """Whether it is a terminal, its encoding and its number are the stream's."""
        return getattr(self._stream, name)
