"""One visit in a slot process: a model arrives, trains on a partition that is held here, and leaves."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from elastune.checkpoints.encoding import decode, encode
from elastune.data.partition_cache import SlotPartitions
from elastune.errors import ExecutionError, JobError
from elastune.runtime.ray.messages import Form, GangBegan, Model, Visited, VisitOrder
from elastune.runtime.ray.slot_io import Reporter, SlotContext
from elastune.training.running import Row, Training
from elastune.training.trainable import State
from elastune.training.visits import Conditions, MetricTally, Shown, VisitOutcome, make_visit
from elastune.training.worker import Worker

_SIGN_S = 20.0


class Visitor:
    def __init__(self, slot: SlotContext, form: Form) -> None:
        if slot.mailbox.pending is None or slot.partitions is None or form.visit is None:
            raise RuntimeError("a visitor needs the pending orders of its gang, partitions and a visit")
        self.slot = slot
        self.form = form
        self.partitions = slot.partitions
        self.pending = slot.mailbox.pending
        self.visit: VisitOrder = form.visit

    def run(self) -> None:
        """Raises the errors of the user's code."""
        form, visit, spec = self.form, self.visit, self.slot.worker_spec
        iteration = form.after_iteration + 1
        with _signs_of_life(self.slot.reporter, form):
            loaded = self.partitions.take(visit.partition, form.share)
        state, tally = self._arrive()
        self.slot.reporter.send(GangBegan(gang=form.gang, at=time.monotonic()))
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
            Conditions(seed=form.seed, device=self.slot.device, threads=spec.threads),
            keep=lambda training: (state := training.save(), encode(state, pickles=spec.pickles)),
        )
        if outcome is None:
            self.slot.reporter.wait("returned")
            return
        tally.add(outcome.metrics, loaded.rows, evaluates=visit.evaluates)
        self._check_metric(tally)
        tally.unsaved_s += outcome.seconds
        if self.pending.dissolved:  # its next visit, on another slot, may already write the same file
            return
        self._depart(outcome, tally, loaded.load_s)

    def _check_metric(self, tally: MetricTally) -> None:
        """As early as possible: not after a whole epoch of all trials."""
        metric, row = self.slot.worker_spec.script.metric, tally.row()
        if metric not in row and (self.visit.evaluates or not self.partitions.evaluates):
            method = "evaluate" if self.visit.evaluates else "step"
            found = ", ".join(sorted(row)) or "nothing"
            name = f"{method} of {self.slot.recipe.name}"
            raise JobError(f"{name} reported no {metric!r}, only {found}; the job's metric is {metric!r}")

    def _arrive(self) -> tuple[State, MetricTally]:
        """The model as the visit before left it."""
        form, visit = self.form, self.visit
        if form.model is not None:
            if not isinstance(form.model.data, bytes):
                raise RuntimeError("a slot got the name of a model; expected its bytes")
            state = decode(form.model.data, pickles=self.slot.worker_spec.pickles)
            return state, MetricTally.of(form.model.tally) if visit.done else MetricTally()
        if visit.done:
            iteration = form.after_iteration + 1
            data = self.slot.worker_spec.store.read_underway(form.gang.trial, iteration, visit.done)
            whole = decode(data, pickles=self.slot.worker_spec.pickles)
            return whole["state"], MetricTally.of(whole["tally"])
        if not form.after_iteration:
            return None, MetricTally()
        data = self.slot.worker_spec.store.read(form.origin, form.after_iteration)
        return decode(data, pickles=self.slot.worker_spec.pickles), MetricTally()

    def _depart(self, outcome: VisitOutcome[tuple[State, bytes]], tally: MetricTally, load_s: float) -> None:
        form, visit = self.form, self.visit
        iteration, last = form.after_iteration + 1, visit.done + 1 == visit.of
        state, data = outcome.kept
        kept, row = last, None
        if last:
            self.slot.worker_spec.store.write(form.gang.trial, iteration, data)
            row = (iteration, time.monotonic(), tally.row())
            tally = MetricTally()
        elif self.slot.worker_spec.checkpoints.is_visit_due(
            tally.unsaved_s,
            self.partitions.save_s,
            training_ends=self.partitions.is_last_of_training(visit.done),
        ):
            kept = self._keep(state, tally, iteration)
        model = Model(
            trial=form.gang.trial,
            iteration=iteration if last else form.after_iteration,
            visits=0 if last else visit.done + 1,
            data=data,
            tally=tally.plain(),
        )
        if not self.pending.dissolved:
            self.slot.reporter.send(
                Visited(
                    gang=form.gang,
                    at=time.monotonic(),
                    seconds=outcome.seconds,
                    load_s=load_s,
                    model=model,
                    size=len(data),
                    kept=kept,
                    row=row,
                )
            )

    def _keep(self, state: State, tally: MetricTally, iteration: int) -> bool:
        """Save a state amid an iteration. If that fails, the next visit tries again."""
        began, unsaved_s = time.monotonic(), tally.unsaved_s
        tally.unsaved_s = 0.0
        whole = encode({"state": state, "tally": tally.plain()}, pickles=self.slot.worker_spec.pickles)
        with contextlib.suppress(ExecutionError, OSError):
            store = self.slot.worker_spec.store
            store.write_underway(self.form.gang.trial, iteration, self.visit.done + 1, whole)
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


def train_together(worker: Worker, training: Training, partitions: SlotPartitions, form: Form) -> Row | None:
    """One iteration of a gang whose members train on their own partitions in parallel."""
    tally = MetricTally()
    if worker.sum(len(form.share)) != worker.size * len(form.share):
        raise RuntimeError(
            f"rank {worker.rank} has {len(form.share)} partitions; other ranks have not as many"
        )
    for partition in form.share:
        loaded = partitions.take(partition, form.share)
        worker.show(loaded.data, partition=partition, rows=loaded.rows)
        evaluates = partitions.is_validation(partition)
        metrics = training.evaluate() if evaluates else training.step()
        if metrics is None:
            return None
        tally.add(_over_all(worker, metrics, loaded.rows), worker.sum(loaded.rows), evaluates=evaluates)
    return tally.row()


def _over_all(worker: Worker, metrics: Row, rows: int) -> dict[str, float]:
    names = sorted(metrics)
    if worker.sum(len(names)) != worker.size * len(names):
        raise RuntimeError(
            f"rank {worker.rank} gave the metrics {names}, other ranks gave others; expected the same of "
            "all, since each has a part of the data"
        )
    return {name: float(worker.mean(metrics[name], weight=float(rows))) for name in names}
