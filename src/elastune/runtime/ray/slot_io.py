"""How a slot process tells news: in order, rows in batches, from any of its threads.

The orders that reach a slot process while it trains.

How rank 0 saves: the state is copied between two iterations and written behind their back.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection

from elastune.checkpoints.encoding import encode
from elastune.model.checkpoint_rule import Saves
from elastune.runtime.ray.messages import (
    Broken,
    Dissolve,
    Extend,
    Flush,
    Flushed,
    Form,
    GangId,
    GangTerms,
    Halt,
    Join,
    Keep,
    News,
    Order,
    RowMessage,
    Trained,
    WorkerSpec,
)
from elastune.training.running import Training

# Iterations shorter than this are told together: a message costs more than they take.
_GATHER_S = 0.02


class Reporter:
    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._gang: GangId | None = None
        self._rows: list[RowMessage] = []
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

    def add_row(self, row: RowMessage) -> None:
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


class PendingOrders:
    """What the present gang has been told so far; read at the boundaries between iterations."""

    def __init__(self, form: Form) -> None:
        self.gang: GangId = form.gang
        self.terms: GangTerms = form.terms
        self.lease = 1
        """Counts the leases: the end of each is told once."""
        self.halted = False
        self.keep = False
        self.dissolved = False
        self.meeting = form.meeting
        self.version = 0


class Mailbox:
    """A thread reads the channel. When it closes, the agent is gone and this process goes too."""

    def __init__(self, channel: Connection, reporter: Reporter) -> None:
        self._channel = channel
        self._reporter = reporter
        self._changed = threading.Condition()
        self._forms: deque[Form] = deque()
        self.standing: PendingOrders | None = None
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def next_form(self) -> Form:
        """Wait for the next gang."""
        with self._changed:
            self._changed.wait_for(lambda: self._forms)
            return self._forms.popleft()

    def wait_for_news(self, standing: PendingOrders, version: int, timeout_s: float) -> bool:
        """Wait until something was said after `version`."""
        with self._changed:
            return self._changed.wait_for(lambda: standing.version != version, timeout_s)

    def _read(self) -> None:
        try:
            while True:
                self._take(pickle.loads(self._channel.recv_bytes()))  # noqa: S301  from our own agent
        except (EOFError, OSError):
            os.killpg(os.getpgid(0), signal.SIGKILL)  # and the helpers that the user's code has started

    def _take(self, order: Order) -> None:
        if isinstance(order, Flush):
            self._reporter.tell(Flushed(number=order.number))
            return
        with self._changed:
            if isinstance(order, Form):  # orders may follow before anybody has looked at it
                self._forms.append(order)
                self.standing = PendingOrders(order)
            elif self.standing is not None and self.standing.gang == order.gang:
                self._apply(self.standing, order)
            self._changed.notify_all()

    @staticmethod
    def _apply(standing: PendingOrders, order: Join | Extend | Halt | Keep | Dissolve) -> None:
        match order:
            case Join(meeting=meeting):
                standing.meeting = meeting
            case Extend(terms=terms):
                standing.terms, standing.halted = terms, False
                standing.lease += 1
            case Halt():
                standing.halted = True
            case Keep():
                standing.keep = True
            case Dissolve():
                standing.dissolved = True
        standing.version += 1  # last: who sees it sees what it stands for


class Saver:
    """Of one gang: when the rule says so, and when it is told to."""

    def __init__(
        self,
        worker_spec: WorkerSpec,
        form: Form,
        training: Training,
        reporter: Reporter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker_spec = worker_spec
        self._form = form
        self._training = training
        self._reporter = reporter
        self._clock = clock
        self._saves = Saves(best=form.terms.keep_above, regular_s=clock())
        self._saved = form.after_iteration
        self._writing: threading.Thread | None = None
        self._took_s = 0.0

    def raise_bar(self, keep_above: float | None) -> None:
        """Elsewhere a better model was found meanwhile."""
        self._saves = self._worker_spec.checkpoints.raise_best(self._saves, keep_above)

    def consider(self, iteration: int, value: float | None, now: float) -> None:
        """After each iteration: is this state worth a checkpoint?"""
        rule = self._worker_spec.checkpoints
        if self._writing is not None and not self._writing.is_alive():
            self.finish()
        if value is None or not rule.is_due(self._saves, value, now):
            return
        self.finish()
        began = self._clock()
        self._saves = rule.begin(self._saves, value, began)
        data = self._copy()
        self._writing = threading.Thread(target=self._write, args=(iteration, data, began), daemon=True)
        self._writing.start()

    def keep(self, iteration: int) -> None:
        """When this returns, the state after `iteration` is durable. Raises if it cannot be."""
        self.finish()
        if self._saved == iteration:
            return
        self._worker_spec.store.write(self._form.gang.trial, iteration, self._copy())
        self._saved = iteration

    def finish(self) -> None:
        """Let what is being written be written, before a later gang may write the same."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
            self._saves = self._worker_spec.checkpoints.end(self._saves, self._took_s)

    def _copy(self) -> bytes:
        return encode(self._training.save(), pickles=self._worker_spec.pickles)

    def _write(self, iteration: int, data: bytes, began: float) -> None:
        try:
            self._worker_spec.store.write(self._form.gang.trial, iteration, data)
        except Exception:  # noqa: BLE001, S110  whatever the storage raises; the next save tries again
            pass
        else:
            self._saved = iteration
            self._reporter.add_saved(self._form.gang, iteration)
        self._took_s = self._clock() - began
