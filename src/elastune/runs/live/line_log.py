"""A run as lines: one for each change worth telling, and how it stands now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

from elastune.core import State
from elastune.runs.live.scene import Happening
from elastune.runs.live.spectator import Opening, View
from elastune.runs.live.telling import tell_scene, tell_time
from elastune.runs.live.tidings import BEST

_LOOK_EVERY_S = 1.0
# A model that learns is the best so far again and again.
_BEST_EVERY_S = 5.0
_STANDING_EVERY_S = 15.0


class LineLog:
    """`Spectator` for a place where nothing can be drawn over: a file, a pipe, a notebook."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`write` takes a line without its end."""
        self._write = write
        self._clock = clock
        self._view: View | None = None
        self._best: Happening | None = None
        self._next_look_s = self._next_best_s = self._next_standing_s = 0.0

    def begin(self, opening: Opening) -> None:
        self._view, self._best = View(opening, self._clock), None
        self._next_look_s = self._next_best_s = self._clock()
        self._next_standing_s = self._clock() + _STANDING_EVERY_S

    def __call__(self, state: State) -> None:
        now_s = self._clock()
        if self._view is None or (now_s < self._next_look_s and state.ended is None):
            return
        self._next_look_s = now_s + _LOOK_EVERY_S
        scene = self._view.look(state)
        for each in self._view.news:
            if each.topic == BEST:
                self._best = each
            else:
                self._tell(each.at_s, f"{each}")
        if self._best is not None and (now_s >= self._next_best_s or scene.is_over):
            self._next_best_s = now_s + _BEST_EVERY_S
            self._tell(self._best.at_s, f"{self._best}")
            self._best = None
        if now_s >= self._next_standing_s and not scene.is_over:
            self._next_standing_s = now_s + _STANDING_EVERY_S
            self._tell(scene.now_s, tell_scene(scene))

    def _tell(self, at_s: float, text: str) -> None:
        self._write(f"{tell_time(at_s):>7}  {text}")
