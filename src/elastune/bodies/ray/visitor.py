"""One visit in a slot process: a model comes, trains on a partition that lies here, and goes on."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from elastune.bodies.ray.mailbox import Mailbox
from elastune.bodies.ray.messages import Form, Manual, Model, Started, Visit, Visited
from elastune.bodies.ray.reporting import Reporter
from elastune.bodies.ray.shelves import Shelves
from elastune.checkpoints import decode, encode
from elastune.errors import ExecutionError, JobError
from elastune.training import Recipe, Row, State, Tally, Training, Worker
from elastune.training.visiting import Conditions, Shown, VisitOutcome, make_visit

_SIGN_S = 20.0


class Visitor:
    def __init__(
        self,
        manual: Manual,
        form: Form,
        recipe: Recipe,
        mailbox: Mailbox,
        reporter: Reporter,
        shelves: Shelves,
        device: str,
    ) -> None:
        self.manual = manual
        self.form = form
        self.recipe = recipe
        self.mailbox = mailbox
        self.reporter = reporter
        self.shelves = shelves
        self.device = device
        if mailbox.standing is None or form.visit is None:
            raise RuntimeError("a visitor needs the standing of its gang, and a visit")
        self.standing = mailbox.standing
        self.visit: Visit = form.visit

    def run(self) -> None:
        """Raises what the user's code raises."""
        form, visit = self.form, self.visit
        iteration = form.after_iteration + 1
        with _signs_of_life(self.reporter, form):
            loaded = self.shelves.take(visit.partition, form.share)
        state, tally = self._arrive()
        self.reporter.tell(Started(gang=form.gang, at=time.monotonic()))
        outcome = make_visit(
            self.recipe,
            form.config,
            state,
            Shown(
                data=loaded.data,
                partition=visit.partition,
                rows=loaded.rows,
                iteration=iteration,
                evaluates=visit.evaluates,
            ),
            Conditions(seed=form.seed, device=self.device, threads=self.manual.threads),
            keep=lambda training: (state := training.save(), encode(state, pickles=self.manual.pickles)),
        )
        if outcome is None:
            self.reporter.wait("returned")
            return
        tally.add(outcome.metrics, loaded.rows, evaluates=visit.evaluates)
        self._check_metric(tally)
        tally.unsaved_s += outcome.seconds
        if self.standing.dissolved:  # its next visit, elsewhere, may write under the same name by now
            return
        self._depart(outcome, tally, loaded.load_s)

    def _check_metric(self, tally: Tally) -> None:
        """As soon as it can be told: not after a whole epoch of all trials."""
        metric, row = self.manual.script.metric, tally.row()
        if metric not in row and (self.visit.evaluates or not self.shelves.evaluates):
            method = "evaluate" if self.visit.evaluates else "step"
            told = ", ".join(sorted(row)) or "nothing"
            raise JobError(
                f"{method} of {self.recipe.name} reported no {metric!r}, only {told}; the job's metric is "
                f"{metric!r}"
            )

    def _arrive(self) -> tuple[State, Tally]:
        """The model as the visit before left it."""
        form, visit = self.form, self.visit
        if form.model is not None:
            if not isinstance(form.model.data, bytes):
                raise RuntimeError("a model has to be brought before it is given to a slot")
            state = decode(form.model.data, pickles=self.manual.pickles)
            return state, Tally.of(form.model.tally) if visit.done else Tally()
        if visit.done:
            iteration = form.after_iteration + 1
            data = self.manual.store.read_underway(form.gang.trial, iteration, visit.done)
            whole = decode(data, pickles=self.manual.pickles)
            return whole["state"], Tally.of(whole["tally"])
        if not form.after_iteration:
            return None, Tally()
        data = self.manual.store.read(form.origin, form.after_iteration)
        return decode(data, pickles=self.manual.pickles), Tally()

    def _depart(self, outcome: VisitOutcome[tuple[State, bytes]], tally: Tally, load_s: float) -> None:
        form, visit = self.form, self.visit
        iteration, last = form.after_iteration + 1, visit.done + 1 == visit.of
        state, data = outcome.kept
        kept = last
        row = None
        if last:
            self.manual.store.write(form.gang.trial, iteration, data)
            row = (iteration, time.monotonic(), tally.row())
            tally = Tally()
        elif self.manual.checkpoints.is_visit_due(
            tally.unsaved_s,
            self.shelves.save_s,
            training_ends=self.shelves.is_last_of_training(visit.done),
        ):
            kept = self._keep(state, tally, iteration)
        model = Model(
            trial=form.gang.trial,
            iteration=iteration if last else form.after_iteration,
            visits=0 if last else visit.done + 1,
            data=data,
            tally=tally.plain(),
        )
        if not self.standing.dissolved:
            self.reporter.tell(
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

    def _keep(self, state: State, tally: Tally, iteration: int) -> bool:
        """A state amid an iteration. Where it cannot be written, the next visit tries again."""
        began, unsaved_s = time.monotonic(), tally.unsaved_s
        tally.unsaved_s = 0.0
        whole = encode({"state": state, "tally": tally.plain()}, pickles=self.manual.pickles)
        with contextlib.suppress(ExecutionError, OSError):
            self.manual.store.write_underway(self.form.gang.trial, iteration, self.visit.done + 1, whole)
            self.shelves.save_s = time.monotonic() - began
            return True
        tally.unsaved_s = unsaved_s
        return False


@contextlib.contextmanager
def _signs_of_life(reporter: Reporter, form: Form) -> Iterator[None]:
    """Reading a large partition may take long, and whoever is silent for long is taken for hung."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_SIGN_S):
            reporter.tell(Started(gang=form.gang, at=time.monotonic()))

    threading.Thread(target=tell, name="signs of life", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def train_together(worker: Worker, training: Training, shelves: Shelves, form: Form) -> Row | None:
    """One iteration of a gang whose members have their own partitions: all of them, side by side."""
    tally = Tally()
    if worker.sum(len(form.share)) != worker.size * len(form.share):
        raise RuntimeError(
            f"rank {worker.rank} has {len(form.share)} partitions, and others have not as many"
        )
    for partition in form.share:
        loaded = shelves.take(partition, form.share)
        worker.show(loaded.data, partition=partition, rows=loaded.rows)
        evaluates = shelves.is_validation(partition)
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
