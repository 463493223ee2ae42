"""The live screen in a notebook: one output that is redrawn in place, and is true when the run has ended."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from rich.text import Text

from elastune.core.state import State
from elastune.views.live.panel import panel_lines
from elastune.views.live.snapshot import Snapshot
from elastune.views.live.spectator import Opening, View
from elastune.views.notebook import CellOutput, Output, terminal_html

_WIDTH = 108
_HEIGHT = 30
_MOST_MESSAGES = 12
_REDRAW_EVERY_S = 1.0


class NotebookScreen:
    """`Spectator` and `Announcer`. A message may come from a signal handler or another thread during a
    redraw: then the next redraw shows it."""

    def __init__(
        self, open_output: Callable[[], Output] = CellOutput, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_output = open_output
        self._clock = clock
        self._output: Output | None = None
        self._messages: deque[str] = deque(maxlen=_MOST_MESSAGES)
        self._view: View | None = None
        self._snapshot: Snapshot | None = None
        self._drawing = threading.Lock()
        self._next_s = 0.0

    def announce(self, text: str) -> None:
        self._messages.append(text)
        self._draw()

    def begin(self, opening: Opening) -> None:
        self._view, self._next_s = View(opening, self._clock), 0.0

    def __call__(self, state: State) -> None:
        now_s, is_ending = self._clock(), state.ended is not None or state.suspended
        if self._view is None or (now_s < self._next_s and not is_ending):
            return
        self._next_s = now_s + _REDRAW_EVERY_S
        self._snapshot = self._view.look(state)
        self._draw()

    def _draw(self) -> None:
        if not self._drawing.acquire(blocking=False):
            return
        try:
            if self._output is None:
                self._output = self._open_output()
            self._output.update(to_html(tuple(self._messages), self._snapshot))
        finally:
            self._drawing.release()


def to_html(messages: tuple[str, ...], snapshot: Snapshot | None) -> str:
    """Messages above the screen."""
    parts = [Text(message, "dim") for message in messages]
    if snapshot is not None:
        parts += [*([Text("")] if messages else []), *panel_lines(snapshot, _WIDTH, _HEIGHT)]
    return terminal_html(*parts, width=_WIDTH)
