"""The orders that reach a slot process while it trains."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections import deque
from multiprocessing.connection import Connection

from elastune.bodies.ray.messages import (
    Dissolve,
    Extend,
    Flush,
    Flushed,
    Form,
    GangId,
    Halt,
    Join,
    Keep,
    Order,
    Terms,
)
from elastune.bodies.ray.reporting import Reporter


class Standing:
    """What the present gang has been told so far; read at the boundaries between iterations."""

    def __init__(self, form: Form) -> None:
        self.gang: GangId = form.gang
        self.terms: Terms = form.terms
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
        self.standing: Standing | None = None
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def next_form(self) -> Form:
        """Wait for the next gang."""
        with self._changed:
            self._changed.wait_for(lambda: self._forms)
            return self._forms.popleft()

    def wait_for_news(self, standing: Standing, version: int, timeout_s: float) -> bool:
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
                self.standing = Standing(order)
            elif self.standing is not None and self.standing.gang == order.gang:
                self._apply(self.standing, order)
            self._changed.notify_all()

    @staticmethod
    def _apply(standing: Standing, order: Join | Extend | Halt | Keep | Dissolve) -> None:
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
