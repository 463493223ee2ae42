"""One visit in a slot process: a model arrives, trains on a partition that is held here, and leaves."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from elastune.checkpoints.container import seal
from elastune.checkpoints.encoding import decode, decode_shared, encode_parts
from elastune.errors import ExecutionError, JobError
from elastune.runtime.ray.messages import (
    Form,
    GangBegan,
    HeldModel,
    MappedModel,
    Model,
    Visited,
    VisitOrder,
)
from elastune.runtime.ray.shared_models import LEAST_BYTES, Segment, map_privately
from elastune.runtime.ray.slot_io import Reporter, SlotContext
from elastune.training.running import Row, Training
from elastune.training.trainable import State
from elastune.training.visits import Conditions, MetricTally, Shown, VisitOutcome, make_visit

_SIGN_S = 20.0
# The driver need not hear of the beginning of a shorter visit: a message costs it 3 ms of processor time.
_LONG_S = 0.25


class Visitor:
    def __init__(self, slot: SlotContext, form: Form) -> None:
        if slot.mailbox.pending is None or slot.partitions is None or form.visit is None:
            raise RuntimeError("a visitor needs the pending orders of its gang, partitions and a visit")
        self.slot = slot
        self.form = form
        self.partitions = slot.partitions
        self.pending = slot.mailbox.pending
        self.visit: VisitOrder = form.visit
        self.rows = 0
        """Of the partition."""

    def run(self) -> None:
        """Raises the errors of the user's code."""
        form, visit, spec = self.form, self.visit, self.slot.worker_spec
        iteration = form.after_iteration + 1
        with _signs_of_life(self.slot.reporter, form):
            loaded = self.partitions.take(visit.partition, form.share)
        self.rows = loaded.rows
        state, tally = self._arrive()
        with _told_if_long(self.slot.reporter, form):
            outcome = make_visit(
                self.slot.recipe,
                form.config,
                state,
                Shown(
                    data=loaded.data,
                    partition=visit.partition,
                    rows=loaded.rows,
                    iteration=iteration,
                    evaluates=visit.evaluates,
                ),
                Conditions(
                    seed=form.seed, device=self.slot.device, threads=spec.threads, trial=form.gang.trial
                ),
                keep=self._pack,
            )
        if outcome is None:
            self.slot.reporter.wait("returned")
            return
        tally.add(outcome.metrics, loaded.rows, evaluates=visit.evaluates)
        self._check_metric(tally, outcome.metrics)
        tally.unsaved_s += outcome.seconds
        if self.pending.dissolved:  # its next visit, on another slot, may already write the same file
            self._discard(outcome.kept)
            return
        self._depart(outcome, tally, loaded.load_s)

    def _check_metric(self, tally: MetricTally, reported: Row) -> None:
        """In every visit, as early as possible: the mean of a trial is over the same partitions as that of
        others, whatever the order of its visits."""
        metric, evaluates = self.slot.worker_spec.script.metric, self.visit.evaluates
        if not evaluates and self.partitions.evaluates:
            return  # the evaluation may report it
        if metric in tally.row() and metric not in tally.left_out():
            return
        name = f"{'evaluate' if evaluates else 'step'} of {self.slot.recipe.name}"
        found = ", ".join(sorted(reported)) or "nothing"
        raise JobError(
            f"{name} reported no {metric!r} for a partition, only {found}; the job's metric is {metric!r}, "
            "which every visit has to report"
        )

    def _arrive(self) -> tuple[State, MetricTally]:
        """The model as the visit before left it."""
        form, visit = self.form, self.visit
        if form.model is not None:
            return self._state(form.model), MetricTally.of(form.model.tally) if visit.done else MetricTally()
        if visit.done:
            iteration = form.after_iteration + 1
            data = self.slot.worker_spec.store.read_underway(form.gang.trial, iteration, visit.done)
            whole = decode(data, pickles=self.slot.worker_spec.pickles)
            return whole["state"], MetricTally.of(whole["tally"])
        if not form.after_iteration:
            return None, MetricTally()
        data = self.slot.worker_spec.store.read(form.origin, form.after_iteration)
        return decode(data, pickles=self.slot.worker_spec.pickles), MetricTally()

    def _state(self, model: Model) -> State:
        pickles = self.slot.worker_spec.pickles
        match model.data:
            case bytes():
                return decode(model.data, pickles=pickles)
            case MappedModel(handle=handle, size=size):
                return decode_shared(map_privately(handle, size), pickles=pickles)
            case _:
                raise RuntimeError("a slot got the name of a model; expected its bytes")

    def _pack(self, training: Training) -> bytes | Segment:
        """The state as it is now: what the user's code does to the model later does not change it."""
        packed = encode_parts(training.save(), pickles=self.slot.worker_spec.pickles)
        if packed.size < LEAST_BYTES:
            return b"".join(packed.sealed)
        segment = self.slot.mailbox.segments.take(packed.size)
        segment.write(packed.unsealed)
        return segment

    def _discard(self, kept: bytes | Segment) -> None:
        if isinstance(kept, Segment):
            self.slot.mailbox.segments.give_back(kept.number)

    def _depart(self, outcome: VisitOutcome[bytes | Segment], tally: MetricTally, load_s: float) -> None:
        form, visit, kept = self.form, self.visit, outcome.kept
        iteration, last = form.after_iteration + 1, visit.done + 1 == visit.of
        is_kept, row, left_out = last, None, tally.left_out() if last else ()
        if last:
            sealed = kept if isinstance(kept, bytes) else seal(kept.view)
            self.slot.worker_spec.store.write(form.gang.trial, iteration, sealed)
            row = (iteration, time.monotonic(), tally.row())
            tally = MetricTally()
        elif self.slot.worker_spec.checkpoints.is_visit_due(
            tally.unsaved_s,
            self.partitions.save_s,
            training_ends=self.partitions.is_last_of_training(visit.done),
        ):
            is_kept = self._keep(kept, tally, iteration)
        if self.pending.dissolved:
            self._discard(kept)
            return
        size = len(kept) if isinstance(kept, bytes) else kept.size
        held = kept if isinstance(kept, bytes) else HeldModel(key=form.gang, size=size, segment=kept.number)
        news = Visited(
            gang=form.gang,
            at=time.monotonic(),
            seconds=outcome.seconds,
            load_s=load_s,
            model=Model(
                trial=form.gang.trial,
                iteration=iteration if last else form.after_iteration,
                visits=0 if last else visit.done + 1,
                data=held,
                tally=tally.plain(),
            ),
            size=size,
            kept=is_kept,
            row=row,
            left_out=left_out,
            unused=self._describe_unused(outcome.unused_rows),
        )
        if isinstance(kept, Segment):
            self.slot.reporter.send_model(news, kept)
        else:
            self.slot.reporter.send(news)

    def _describe_unused(self, rows: int) -> str:
        if not rows:
            return ""
        total = self.rows
        name = f"{'evaluate' if self.visit.evaluates else 'step'} of {self.slot.recipe.name}"
        if rows == total:
            return f"{name} never asked for worker.data; expected it to train on this partition alone"
        used = f"{total - rows:,} of {total:,} rows of its partition"
        return f"{name} used {used}; expected all: metrics are weighted by them"

    def _keep(self, kept: bytes | Segment, tally: MetricTally, iteration: int) -> bool:
        """Save a state amid an iteration. If that fails, the next visit tries again."""
        began, unsaved_s = time.monotonic(), tally.unsaved_s
        tally.unsaved_s = 0.0
        pickles = self.slot.worker_spec.pickles
        state = (
            decode(kept, pickles=pickles)
            if isinstance(kept, bytes)
            else decode_shared(kept.view, pickles=pickles)
        )
        whole = encode_parts({"state": state, "tally": tally.plain()}, pickles=pickles)
        with contextlib.suppress(ExecutionError, OSError):
            store = self.slot.worker_spec.store
            store.write_underway(self.form.gang.trial, iteration, self.visit.done + 1, whole.sealed)
            self.partitions.save_s = time.monotonic() - began
            return True
        tally.unsaved_s = unsaved_s
        return False


@contextlib.contextmanager
def _signs_of_life(reporter: Reporter, form: Form) -> Iterator[None]:
    """Reading a large partition may take long, and a silent gang is taken for hung."""
    over = threading.Event()

    def report() -> None:
        while not over.wait(_SIGN_S):
            reporter.send(GangBegan(gang=form.gang, at=time.monotonic()))

    threading.Thread(target=report, name="signs of life", daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextlib.contextmanager
def _told_if_long(reporter: Reporter, form: Form) -> Iterator[None]:
    """The model has arrived and trains; from now on the driver waits as long as a visit may take."""
    began = GangBegan(gang=form.gang, at=time.monotonic())
    timer = threading.Timer(_LONG_S, reporter.send, (began,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
