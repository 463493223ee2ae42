"""Between a Python caller and a run: Ctrl-C, and progress: lines on stderr, in a notebook a screen.

The first Ctrl-C lets the run save and release its nodes; the second one ends it at once.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Self

from elastune.runs.real import Watch
from elastune.views.live.notebook import NotebookScreen
from elastune.views.live.spectator import Announcer, LineLog, Watches
from elastune.views.notebook import is_notebook

_ADVICE = "saving everything and releasing the nodes; press Ctrl-C again to end at once"


class Interrupts:
    """Turns signals into the `nudge` of a run (`reason`). Outside of the main thread it does nothing."""

    def __init__(
        self, say: Callable[[str], None], signals: Sequence[signal.Signals] = (signal.SIGINT,)
    ) -> None:
        self._say = say
        self._signals = signals
        self._reason: str | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def reason(self) -> str | None:
        return self._reason

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._reason is not None:
            raise KeyboardInterrupt
        self._reason = signal.Signals(number).name
        self._say(_ADVICE)


def watching(watch: Watch | None, progress: bool | None) -> Watch | None:
    """`progress` None: unless the caller has a watch."""
    if not (watch is None if progress is None else progress):
        return watch
    shown = NotebookScreen() if is_notebook() else LineLog(_write)
    return shown if watch is None else Watches(watch, shown)


def said(watch: Watch | None) -> Callable[[str], None]:
    """Messages go where the progress goes; without progress to stderr if they are visible there."""
    if isinstance(watch, Announcer):
        return watch.announce
    return _write if sys.stderr.isatty() or is_notebook() else lambda _: None


def _write(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
