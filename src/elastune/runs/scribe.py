"""A thread that writes into one sink, at its own pace."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from elastune.exports import News, Sink
from elastune.runs.remarks import Remark
from elastune.wording import without_secrets

# A server that does not answer must not keep a run from its end.
_PATIENCE_S = 30.0
_log = logging.getLogger("elastune")


class Scribe:
    """After the first thing that goes wrong it writes no more: what is missing then can be exported later."""

    def __init__(self, name: str, opener: Callable[[], Sink], *, run: str, now: Callable[[], float]) -> None:
        self.complaint: Remark | None = None
        self._name = name
        self._open = opener
        self._run = run
        self._now = now
        self._news: queue.SimpleQueue[News | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"log-{name}", daemon=True)
        self._thread.start()

    def tell(self, news: News) -> None:
        if self.complaint is None:
            self._news.put(news)

    def close(self, patience_s: float = _PATIENCE_S) -> None:
        """Wait until all is written, but not for ever."""
        self._news.put(None)
        self._thread.join(patience_s)
        if self._thread.is_alive():
            self._give_up(f"it has not answered for {patience_s:g} s")

    def _work(self) -> None:
        try:
            sink = self._open()
            while (news := self._news.get()) is not None:
                sink.update(news)
            sink.close()
        except Exception as error:  # noqa: BLE001  of libraries and servers anything can come
            self._give_up(without_secrets(f"{type(error).__name__}: {error}".splitlines()[0]))

    def _give_up(self, why: str) -> None:
        if self.complaint is not None:
            return
        text = (
            f"nothing more is written for {self._name}: {why}; when the run is over, `elastune export "
            f"{self._run} --format {self._name}{' --force' * (self._name == 'csv')}` writes all of it"
        )
        self.complaint = Remark(at_s=self._now(), topic="logging", text=text)
        _log.warning(text)
