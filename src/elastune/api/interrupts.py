"""Ctrl-C during a run: the first one lets it save and give back, the next one ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Self

_ADVICE = "saving everything and giving the nodes back; once more ends at once"


class Interrupts:
    """`reason` is a nudge for a run. Only the main thread can listen; elsewhere nothing changes."""

    def __init__(
        self, say: Callable[[str], None], signals: Sequence[signal.Signals] = (signal.SIGINT,)
    ) -> None:
        self._say = say
        self._signals = signals
        self._asked: str | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                    self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def reason(self) -> str | None:
        return self._asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked is not None:
            raise KeyboardInterrupt
        self._asked = signal.Signals(number).name
        self._say(_ADVICE)
