"""What a slot process receives, reports and saves.

News leave in order, rows in batches, from any thread. Orders arrive while the process trains. Rank 0 copies
its state between two iterations and writes it in the background.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from elastune.checkpoints.encoding import encode
from elastune.model.checkpoint_rule import Saves
from elastune.runtime.ray import messages as msg
from elastune.runtime.ray.shared_models import Segment, SegmentPool, receive_handle, send_handle
from elastune.training.recipe import Recipe
from elastune.training.running import Training

if TYPE_CHECKING:
    from elastune.data.partition_cache import SlotPartitions

# Iterations shorter than this are reported together: a message costs more than they take.
_GATHER_S = 0.02


class Reporter:
    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._gang: msg.GangId | None = None
        self._rows: list[msg.RowMessage] = []
        self._saved: list[int] = []
        self._sent = 0.0

    def begin(self, gang: msg.GangId) -> None:
        with self._lock:
            self._gang, self._rows, self._saved = gang, [], []

    def send(self, news: msg.News) -> None:
        """After the rows and saves that were gathered."""
        with self._lock:
            self._flush(time.monotonic(), None)
            self._send(news)

    def add_row(self, row: msg.RowMessage) -> None:
        with self._lock:
            self._rows.append(row)
            if row[1] - self._sent >= _GATHER_S:
                self._flush(row[1], None)

    def add_saved(self, gang: msg.GangId, iteration: int) -> None:
        """A checkpoint of this gang has become durable; ignored if the gang has ended."""
        with self._lock:
            if gang == self._gang:
                self._saved.append(iteration)
                self._flush(time.monotonic(), None)

    def wait(self, reason: str) -> None:
        """The gang has stopped training."""
        with self._lock:
            self._flush(time.monotonic(), reason)

    def end(self, error: str | None = None, *, fault: bool = True) -> None:
        """The gang has ended here; with an error, it broke."""
        with self._lock:
            gang, self._gang = self._gang, None
            rows, saved = tuple(self._rows), tuple(self._saved)
            self._rows, self._saved = [], []
            if error is not None and gang is not None:
                now = time.monotonic()
                self._send(msg.Broken(gang=gang, at=now, error=error, fault=fault, rows=rows, saved=saved))

    def _flush(self, now: float, reason: str | None) -> None:
        if self._gang is None or not (self._rows or self._saved or reason):
            return
        rows, saved = tuple(self._rows), tuple(self._saved)
        self._rows, self._saved, self._sent = [], [], now
        self._send(msg.Trained(gang=self._gang, at=now, rows=rows, saved=saved, reason=reason))

    def send_model(self, news: msg.Visited, segment: Segment) -> None:
        """The end of a visit, and the model that it left."""
        with self._lock:
            self._send(news)
            send_handle(self._channel, segment.handle)

    def _send(self, news: msg.News) -> None:
        self._channel.send_bytes(pickle.dumps(news, pickle.HIGHEST_PROTOCOL))


class PendingOrders:
    """The orders to the present gang so far; read between iterations."""

    def __init__(self, form: msg.Form) -> None:
        self.gang: msg.GangId = form.gang
        self.terms: msg.GangTerms = form.terms
        self.lease = 1
        """Counts the leases: the end of each is reported once."""
        self.halted = False
        self.keep: msg.Keep | None = None
        """The last order to save; each is carried out once."""
        self.dissolved = False
        self.meeting = form.meeting
        self.version = 0


class Mailbox:
    """A thread reads the channel. When the channel closes, the agent is gone and this process exits."""

    def __init__(self, channel: Connection, reporter: Reporter) -> None:
        self.segments = SegmentPool()
        self._channel = channel
        self._reporter = reporter
        self._changed = threading.Condition()
        self._forms: deque[msg.Form] = deque()
        self.pending: PendingOrders | None = None
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def next_form(self) -> msg.Form:
        with self._changed:
            self._changed.wait_for(lambda: self._forms)
            return self._forms.popleft()

    def wait_for_news(self, pending: PendingOrders, version: int, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: pending.version != version, timeout_s)

    def _read(self) -> None:
        try:
            while True:
                order = pickle.loads(self._channel.recv_bytes())  # noqa: S301  from our own agent
                if isinstance(order, msg.Form):
                    order = self._with_model(order)
                self._take(order)
        except (EOFError, OSError):
            os.killpg(os.getpgid(0), signal.SIGKILL)  # and the helper processes of the user's code

    def _with_model(self, form: msg.Form) -> msg.Form:
        """A large model follows its order."""
        if form.model is None or not isinstance(form.model.data, msg.HeldModel):
            return form
        data = msg.MappedModel(handle=receive_handle(self._channel), size=form.model.data.size)
        return replace(form, model=replace(form.model, data=data))

    def _take(self, order: msg.SlotOrder) -> None:
        if isinstance(order, msg.Reuse):
            self.segments.give_back(order.segment)
            return
        if isinstance(order, msg.Flush):
            self._reporter.send(msg.Flushed(number=order.number))
            return
        with self._changed:
            if isinstance(order, msg.Form):  # orders may follow before it is taken
                self._forms.append(order)
                self.pending = PendingOrders(order)
            elif self.pending is not None and self.pending.gang == order.gang:
                self._apply(self.pending, order)
            self._changed.notify_all()

    @staticmethod
    def _apply(pending: PendingOrders, order: msg.GangOrder) -> None:
        match order:
            case msg.Join(meeting=meeting):
                pending.meeting = meeting
            case msg.Extend(terms=terms):
                pending.terms, pending.halted = terms, False
                pending.lease += 1
            case msg.Halt():
                pending.halted = True
            case msg.Keep():
                pending.keep = order
            case msg.Dissolve():
                pending.dissolved = True
        pending.version += 1  # last: a reader that sees it sees the change as well


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotContext:
    """What all gangs of a slot process share. `partitions` is None unless data are partitioned."""

    worker_spec: msg.WorkerSpec
    recipe: Recipe
    mailbox: Mailbox
    reporter: Reporter
    device: str
    partitions: SlotPartitions | None


class Saver:
    """Saves the state of one gang: when the checkpoint rule says so, and on order."""

    def __init__(
        self,
        worker_spec: msg.WorkerSpec,
        form: msg.Form,
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
        """Another trial has found a better model meanwhile."""
        self._saves = self._worker_spec.checkpoints.raise_best(self._saves, keep_above)

    def consider(self, iteration: int, value: float | None, now: float) -> None:
        """After each iteration: save if a checkpoint is due."""
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
        """When this returns, the state after `iteration` is durable; else it raises."""
        self.finish()
        if self._saved == iteration:
            return
        self._worker_spec.store.write(self._form.gang.trial, iteration, self._copy())
        self._saved = iteration

    def finish(self) -> None:
        """Wait for the write under way: a later gang may write the same file."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
            self._saves = self._worker_spec.checkpoints.end(self._saves, self._took_s)

    def _copy(self) -> bytes:
        return encode(self._training.save(), pickles=self._worker_spec.pickles)

    def _write(self, iteration: int, data: bytes, began: float) -> None:
        try:
            self._worker_spec.store.write(self._form.gang.trial, iteration, data)
        except Exception:  # noqa: BLE001, S110  storages raise many kinds; the next save tries again
            pass
        else:
            self._saved = iteration
            self._reporter.add_saved(self._form.gang, iteration)
        self._took_s = self._clock() - began
