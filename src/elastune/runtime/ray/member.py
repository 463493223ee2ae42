"""One rank of a gang, from forming it to its end.

Rank 0 holds the lease: before every iteration it tells the others whether to go on, so that all ranks
train the same iterations whenever orders come.
"""

from __future__ import annotations

import enum
import time
from collections import deque
from typing import TYPE_CHECKING

from elastune.checkpoints.encoding import decode
from elastune.runtime.ray.messages import Form, GangBegan, Kept, Listening, WorkerSpec
from elastune.runtime.ray.slot_io import Mailbox, PendingOrders, Reporter, Saver
from elastune.training.groups import Group, Solo, open_rendezvous
from elastune.training.recipe import Recipe
from elastune.training.running import Row, Training, join
from elastune.training.worker import Worker, make_worker

if TYPE_CHECKING:
    from elastune.runtime.ray.visitor import SlotPartitions


_FORMING_S = 60.0
# A rank that waits in a collective call gives up after a while, so it is told now and then to wait on.
_PATIENCE_S = 10.0
_REMEMBERED = 5
_LOOPBACK = "127.0.0.1"


class Word(enum.IntEnum):
    """What rank 0 says at a boundary."""

    STEP = 1
    WAIT = 2
    END = 3


class Dissolved(Exception):  # noqa: N818  not an error: the gang is not wanted any more
    """Before it was formed."""


class GangMember:
    def __init__(
        self,
        worker_spec: WorkerSpec,
        form: Form,
        recipe: Recipe,
        mailbox: Mailbox,
        reporter: Reporter,
        device: str,
        shelves: SlotPartitions | None = None,
    ) -> None:
        self.worker_spec = worker_spec
        self.shelves = shelves
        self.form = form
        self.recipe = recipe
        self.mailbox = mailbox
        self.reporter = reporter
        self.device = device
        standing = mailbox.standing
        if standing is None:
            raise RuntimeError("a member needs the standing of its gang")
        self.standing: PendingOrders = standing
        self.iteration = form.after_iteration
        self.seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self.returned = False
        self.told = 0
        """The lease whose end was told last."""

    def run(self) -> None:
        """Raises what the user's code raises, and `Dissolved`."""
        group = self._join()
        try:
            worker = make_worker(
                group, seed=self.form.seed, device=self.device, threads=self.worker_spec.threads
            )
            training = self.recipe.start(dict(self.form.config), worker, self._state())
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
        data = self.worker_spec.store.read(self.form.origin, self.form.after_iteration)
        return decode(data, pickles=self.worker_spec.pickles)

    # Forming.

    def _join(self) -> Group:
        form = self.form
        if form.size == 1:
            return Solo()
        backend = "cpu:gloo,cuda:nccl" if self.device.startswith("cuda") else "gloo"
        if not form.rank:
            rendezvous = open_rendezvous(self.worker_spec.host or _LOOPBACK)
            self.reporter.tell(Listening(gang=form.gang, meeting=(rendezvous.host, rendezvous.port)))
            return join(
                rendezvous.host,
                rendezvous.port,
                rank=0,
                size=form.size,
                timeout_s=_FORMING_S,
                rendezvous=rendezvous,
                backend=backend,
            )
        host, port = self._met()
        return join(host, port, rank=form.rank, size=form.size, timeout_s=_FORMING_S, backend=backend)

    def _met(self) -> tuple[str, int]:
        standing = self.standing
        while standing.meeting is None:
            if standing.dissolved:
                raise Dissolved
            self.mailbox.wait_for_news(standing, standing.version, _PATIENCE_S)
        return standing.meeting

    # Training.

    def _follow(self, group: Group, worker: Worker, training: Training) -> None:
        while True:
            match group.agree(Word.WAIT):
                case Word.STEP:
                    self.iteration += 1
                    worker.iteration = self.iteration
                    if self._iterate(worker, training) is None:
                        self.iteration -= 1
                case Word.END:
                    return

    def _lead(self, group: Group, worker: Worker, training: Training) -> None:
        saver = Saver(self.worker_spec, self.form, training, self.reporter)
        self.reporter.tell(GangBegan(gang=self.form.gang, at=time.monotonic()))
        while True:
            version = self.standing.version
            word = self._decide(saver)
            group.agree(word)
            if word is Word.END:
                saver.finish()
                return
            if word is Word.WAIT:
                self.mailbox.wait_for_news(self.standing, version, _PATIENCE_S)
            else:
                self._step(worker, training, saver)

    def _decide(self, saver: Saver) -> Word:
        standing = self.standing
        if standing.dissolved:
            return Word.END
        if standing.keep:
            saver.keep(self.iteration)
            self.reporter.tell(Kept(gang=self.form.gang, at=time.monotonic()))
            return Word.END
        lease = standing.lease
        reason = self._stop(standing)
        if reason is None:
            saver.raise_bar(standing.terms.keep_above)
            return Word.STEP
        if self.told != lease:
            self.told = lease
            self.reporter.wait(reason)
        return Word.WAIT

    def _stop(self, standing: PendingOrders) -> str | None:
        """Why the next iteration may not begin."""
        terms = standing.terms
        if self.returned:
            return "returned"
        if standing.halted:
            return "revoked"
        if self.iteration >= terms.until_iteration:
            return "reached"
        if terms.until is not None and time.monotonic() + self._expected_s > terms.until:
            return "time"
        return None

    def _iterate(self, worker: Worker, training: Training) -> Row | None:
        if self.shelves is None:
            return training.step()
        from elastune.runtime.ray.visitor import train_together  # noqa: PLC0415

        return train_together(worker, training, self.shelves, self.form)

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
        self.reporter.add_row((self.iteration, ended, metrics))
        saver.consider(self.iteration, metrics.get(self.worker_spec.script.metric), ended)
