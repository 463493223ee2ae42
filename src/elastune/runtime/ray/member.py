"""One rank of a gang, from forming it to its end.

Rank 0 holds the lease: before every iteration it broadcasts whether to continue, so that all ranks train the
same iterations, whenever orders arrive.
"""

from __future__ import annotations

import enum
import time
from collections import deque

from elastune.checkpoints.encoding import decode
from elastune.runtime.ray.messages import Form, GangBegan, Kept, Listening
from elastune.runtime.ray.slot_io import PendingOrders, Saver, SlotContext
from elastune.training.groups import Group, Solo, open_rendezvous
from elastune.training.running import Row, Training, join
from elastune.training.worker import Worker, make_worker

_FORMING_S = 60.0
# A collective call times out, so waiting ranks are sent `WAIT` this often.
_PATIENCE_S = 10.0
_REMEMBERED = 5
_LOOPBACK = "127.0.0.1"


class Verdict(enum.IntEnum):
    """What rank 0 broadcasts between two iterations."""

    STEP = 1
    WAIT = 2
    END = 3


class Dissolved(Exception):  # noqa: N818  not an error
    """The gang was dissolved before it was formed."""


class GangMember:
    def __init__(self, slot: SlotContext, form: Form) -> None:
        self.slot = slot
        self.form = form
        if slot.mailbox.pending is None:
            raise RuntimeError("a member needs the pending orders of its gang")
        self.pending: PendingOrders = slot.mailbox.pending
        self.iteration = form.after_iteration
        self.seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self.returned = False
        self.reported = 0
        """The last lease whose end was reported."""

    def run(self) -> None:
        """Raises the errors of the user's code, and `Dissolved`."""
        group = self._join()
        try:
            worker = make_worker(
                group, seed=self.form.seed, device=self.slot.device, threads=self.slot.worker_spec.threads
            )
            training = self.slot.recipe.start(dict(self.form.config), worker, self._state())
            try:
                if group.rank:
                    self._follow(group, worker, training)
                else:
                    self._lead(group, worker, training)
            finally:
                training.close()
        finally:
            group.close()

    def _state(self) -> object:
        if not self.form.after_iteration:
            return None
        data = self.slot.worker_spec.store.read(self.form.origin, self.form.after_iteration)
        return decode(data, pickles=self.slot.worker_spec.pickles)

    # Forming.

    def _join(self) -> Group:
        form = self.form
        if form.size == 1:
            return Solo()
        backend = "cpu:gloo,cuda:nccl" if self.slot.device.startswith("cuda") else "gloo"
        if not form.rank:
            own = open_rendezvous(self.slot.worker_spec.host or _LOOPBACK)
            host, port = own.host, own.port
            self.slot.reporter.send(Listening(gang=form.gang, meeting=(host, port)))
        else:
            own = None
            host, port = self._wait_for_meeting()
        return join(
            host, port, rank=form.rank, size=form.size, timeout_s=_FORMING_S, rendezvous=own, backend=backend
        )

    def _wait_for_meeting(self) -> tuple[str, int]:
        pending = self.pending
        while pending.meeting is None:
            if pending.dissolved:
                raise Dissolved
            self.slot.mailbox.wait_for_news(pending, pending.version, _PATIENCE_S)
        return pending.meeting

    # Training.

    def _follow(self, group: Group, worker: Worker, training: Training) -> None:
        while True:
            match group.agree(Verdict.WAIT):
                case Verdict.STEP:
                    self.iteration += 1
                    worker.iteration = self.iteration
                    if self._iterate(worker, training) is None:
                        self.iteration -= 1
                case Verdict.END:
                    return

    def _lead(self, group: Group, worker: Worker, training: Training) -> None:
        saver = Saver(self.slot.worker_spec, self.form, training, self.slot.reporter)
        self.slot.reporter.send(GangBegan(gang=self.form.gang, at=time.monotonic()))
        while True:
            version = self.pending.version
            verdict = self._decide(saver)
            group.agree(verdict)
            if verdict is Verdict.END:
                saver.finish()
                return
            if verdict is Verdict.WAIT:
                self.slot.mailbox.wait_for_news(self.pending, version, _PATIENCE_S)
            else:
                self._step(worker, training, saver)

    def _decide(self, saver: Saver) -> Verdict:
        pending = self.pending
        if pending.dissolved:
            return Verdict.END
        if pending.keep:
            saver.keep(self.iteration)
            self.slot.reporter.send(Kept(gang=self.form.gang, at=time.monotonic()))
            return Verdict.END
        reason = self._stop(pending)
        if reason is None:
            saver.raise_bar(pending.terms.keep_above)
            return Verdict.STEP
        if self.reported != pending.lease:
            self.reported = pending.lease
            self.slot.reporter.wait(reason)
        return Verdict.WAIT

    def _stop(self, pending: PendingOrders) -> str | None:
        """Why the next iteration must not begin."""
        terms = pending.terms
        if self.returned:
            return "returned"
        if pending.halted:
            return "revoked"
        if self.iteration >= terms.until_iteration:
            return "reached"
        if terms.until is not None and time.monotonic() + self._expected_s > terms.until:
            return "time"
        return None

    def _iterate(self, worker: Worker, training: Training) -> Row | None:
        if self.slot.partitions is None:
            return training.step()
        from elastune.runtime.ray.visitor import train_together  # noqa: PLC0415

        return train_together(worker, training, self.slot.partitions, self.form)

    @property
    def _expected_s(self) -> float:
        return sum(self.seconds) / len(self.seconds) if self.seconds else self.form.expected_s

    def _step(self, worker: Worker, training: Training, saver: Saver) -> None:
        self.iteration += 1
        worker.iteration = self.iteration
        began = time.monotonic()
        metrics = self._iterate(worker, training)
        ended = time.monotonic()
        if metrics is None:
            self.iteration -= 1
            self.returned = True
            return
        self.seconds.append(ended - began)
        self.slot.reporter.add_row((self.iteration, ended, metrics))
        saver.consider(self.iteration, metrics.get(self.slot.worker_spec.script.metric), ended)
