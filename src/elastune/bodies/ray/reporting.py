"""How a slot process tells news: in order, rows in batches, from any of its threads."""

from __future__ import annotations

import pickle
import threading
import time
from multiprocessing.connection import Connection

from elastune.bodies.ray.messages import Broken, GangId, News, Row, Trained

# Iterations shorter than this are told together: a message costs more than they take.
_GATHER_S = 0.02


class Reporter:
    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._gang: GangId | None = None
        self._rows: list[Row] = []
        self._saved: list[int] = []
        self._told = 0.0

    def begin(self, gang: GangId) -> None:
        with self._lock:
            self._gang, self._rows, self._saved = gang, [], []

    def tell(self, news: News) -> None:
        """Whatever was gathered goes first."""
        with self._lock:
            self._flush(time.monotonic(), None)
            self._send(news)

    def add_row(self, row: Row) -> None:
        with self._lock:
            self._rows.append(row)
            if row[1] - self._told >= _GATHER_S:
                self._flush(row[1], None)

    def add_saved(self, gang: GangId, iteration: int) -> None:
        """A checkpoint of this gang has become durable; of one that is gone it no longer matters."""
        with self._lock:
            if gang == self._gang:
                self._saved.append(iteration)
                self._flush(time.monotonic(), None)

    def wait(self, reason: str) -> None:
        """The gang has stopped training."""
        with self._lock:
            self._flush(time.monotonic(), reason)

    def flush(self) -> None:
        with self._lock:
            self._flush(time.monotonic(), None)

    def end(self, error: str | None = None, *, fault: bool = True) -> None:
        """The gang is over here; with an error, it broke."""
        with self._lock:
            gang, self._gang = self._gang, None
            rows, saved = tuple(self._rows), tuple(self._saved)
            self._rows, self._saved = [], []
            if error is not None and gang is not None:
                now = time.monotonic()
                self._send(Broken(gang=gang, at=now, error=error, fault=fault, rows=rows, saved=saved))

    def _flush(self, now: float, reason: str | None) -> None:
        if self._gang is None or not (self._rows or self._saved or reason):
            return
        rows, saved = tuple(self._rows), tuple(self._saved)
        self._rows, self._saved, self._told = [], [], now
        self._send(Trained(gang=self._gang, at=now, rows=rows, saved=saved, reason=reason))

    def _send(self, news: News) -> None:
        self._channel.send_bytes(pickle.dumps(news, pickle.HIGHEST_PROTOCOL))
