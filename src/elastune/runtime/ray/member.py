"""One rank of a gang, from forming it to its end.

Rank 0 holds the lease: before every iteration it broadcasts whether to continue, so that all ranks train the
same iterations, whenever orders arrive.
"""

from __future__ import annotations

import enum
import time
from collections import deque

from elastune.checkpoints.encoding import decode
from elastune.errors import JobError
from elastune.runtime.ray.messages import Form, GangBegan, Keep, Kept, Listening, Repeating
from elastune.runtime.ray.slot_io import PendingOrders, Saver, SlotContext
from elastune.training.groups import Group, Solo, open_rendezvous
from elastune.training.running import Row, Training, join
from elastune.training.shared_data import refuse_writes
from elastune.training.sharing import refuse_isolation
from elastune.training.trainable import State
from elastune.training.unsaved import difference, is_no_model
from elastune.training.visits import train_together
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
        self.iteration = 0
        """The last one that was trained, or whose state was loaded."""
        self.seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self.returned = False
        self.reported = 0
        """The last lease whose end was reported."""
        self.kept: Keep | None = None
        """The last order to save that was carried out."""
        self._has_iterated = False

    def run(self) -> None:
        """Raises the errors of the user's code, and `Dissolved`."""
        group = self._join()
        try:
            worker = make_worker(
                group,
                seed=self.form.seed,
                device=self.slot.device,
                threads=self.slot.worker_spec.threads,
                trial=self.form.gang.trial,
            )
            state = self._state()
            again = state is not None and self._must_repeat(state)
            training = self.slot.recipe.start(dict(self.form.config), worker, None if again else state)
            self.iteration = 0 if again else self.form.after_iteration
            try:
                if group.rank:
                    self._follow(group, worker, training)
                else:
                    began = self._repeat(group, worker, training, state)
                    self._lead(group, worker, training, began)
            finally:
                training.close()
        finally:
            group.close()

    def _state(self) -> State | None:
        if not self.form.after_iteration:
            return None
        data = self.slot.worker_spec.store.read(self.form.origin, self.form.after_iteration)
        return decode(data, pickles=self.slot.worker_spec.pickles)

    def _must_repeat(self, state: State) -> bool:
        """Whether the iterations so far are trained again. A call begins at the beginning by itself."""
        recipe = self.slot.recipe
        return not recipe.is_call and (is_no_model(state) or not recipe.saves)

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
                    self._train_next(worker, training)
                case Verdict.END:
                    return

    def _repeat(self, group: Group, worker: Worker, training: Training, state: State) -> GangBegan:
        """If the checkpoint has no model, train the iterations up to it again."""
        before, first, row = self.form.after_iteration, self.iteration, None
        while self.iteration < before:
            if self.pending.dissolved:
                group.agree(Verdict.END)
                raise Dissolved
            group.agree(Verdict.STEP)
            row = self._train_next(worker, training)
            if row is None:
                raise JobError(
                    f"{self.slot.recipe.name} ended after {self.iteration} iterations when it was trained "
                    f"again, and had done {before} before; expected the same training for the same config"
                )
            self.slot.reporter.send(Repeating(gang=self.form.gang, at=time.monotonic()))
        changed = "" if row is None else difference(state, row)
        return GangBegan(gang=self.form.gang, at=time.monotonic(), repeated=before - first, changed=changed)

    def _lead(self, group: Group, worker: Worker, training: Training, began: GangBegan) -> None:
        saver = Saver(self.slot.worker_spec, self.form, training, self.slot.reporter)
        self.slot.reporter.send(began)
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
        if (keep := pending.keep) is not None and keep is not self.kept:
            self.kept = keep
            saver.keep(self.iteration)
            self.slot.reporter.send(Kept(gang=self.form.gang, at=time.monotonic(), stays=keep.stay))
            return Verdict.WAIT if keep.stay else Verdict.END
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
        expected_s = self._expected_s * (terms.until_iteration if self._calls else 1)
        if terms.until is not None and time.monotonic() + expected_s > terms.until:
            return "time"
        return None

    def _iterate(self, worker: Worker, training: Training) -> Row | None:
        if self.slot.partitions is None:
            metrics = training.step()
        else:
            metrics = train_together(worker, training, self.slot.partitions, self.form.share)
        if metrics is not None:
            refuse_isolation(self.slot.recipe.name, worker.size, exchanges=worker.exchanges)
        if not self._has_iterated:  # looking takes some 10 ms per GB
            refuse_writes()
        self._has_iterated = True
        return metrics

    @property
    def _expected_s(self) -> float:
        return sum(self.seconds) / len(self.seconds) if self.seconds else self.form.expected_s

    def _train_next(self, worker: Worker, training: Training) -> Row | None:
        """A call trains to the end of the lease; all others one more iteration."""
        before = self.iteration
        self.iteration = self.pending.terms.until_iteration if self._calls else before + 1
        worker.iteration = self.iteration
        metrics = self._iterate(worker, training)
        if metrics is None:
            self.iteration = before
        return metrics

    @property
    def _calls(self) -> bool:
        return self.slot.recipe.fidelity is not None

    def _step(self, worker: Worker, training: Training, saver: Saver) -> None:
        began = time.monotonic()
        metrics = self._train_next(worker, training)
        ended = time.monotonic()
        if metrics is None:
            self.returned = True
            return
        self.seconds.append((ended - began) / (self.iteration if self._calls else 1))
        self.slot.reporter.add_row((self.iteration, ended, metrics))
        saver.consider(self.iteration, metrics.get(self.slot.worker_spec.script.metric), ended)
