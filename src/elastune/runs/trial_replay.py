"""Trial replay: trains one trial of a hopping run again, alone, in the visit order of its journal.

Training is sequential SGD over the partitions in the order of the visits, so the same order gives the same
weights, bit for bit on the same kind of machine. A replay shows that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from elastune.checkpoints.encoding import decode, encode
from elastune.checkpoints.store import Store
from elastune.core.events import Config
from elastune.data.partition_cache import SlotPartitions
from elastune.errors import ExecutionError, JobError
from elastune.history.gangs import GangLife, VisitLife
from elastune.history.recorder import history_of
from elastune.history.trials import TIMES_ONLY
from elastune.job.job import Job
from elastune.journal.records import Entry, RuntimeKind
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.model.ids import TrialId
from elastune.runs.code_bundle import CodeShipment, ship
from elastune.runs.reopening import reopen, started_of
from elastune.runs.resuming import at_home
from elastune.runs.run_files import open_store
from elastune.setup.data import open_data
from elastune.training.trainable import State
from elastune.training.visits import Conditions, Shown, make_visit
from elastune.training.worker import trial_seed


@dataclass(frozen=True, slots=True)
class EpochVisits:
    """The effective visits of one iteration, in order; empty: all workers trained it at once."""

    iteration: int
    visits: tuple[VisitLife, ...]


@dataclass(frozen=True, slots=True)
class TrialVisitOrder:
    """`parent`: the trial it was forked from, and after how many iterations."""

    config: Config
    parent: tuple[TrialId, int] | None
    epochs: tuple[EpochVisits, ...]


def read_visit_orders(entries: Iterable[Entry]) -> dict[TrialId, TrialVisitOrder]:
    """Of visits lost with a worker and repeated, only the effective one."""
    history = history_of(entries, TIMES_ONLY)
    gangs: dict[TrialId, list[GangLife]] = {number: [] for number in history.trials}
    for gang in history.gangs:
        gangs[gang.trial].append(gang)
    return {
        number: TrialVisitOrder(
            trial.config,
            None if trial.parent is None else (trial.parent, trial.inherited),
            tuple(_epochs(gangs[number])),
        )
        for number, trial in history.trials.items()
    }


def _epochs(gangs: Sequence[GangLife]) -> list[EpochVisits]:
    """Of one trial, whose gangs ran one after the other."""
    epochs: list[EpochVisits] = []
    seen: list[VisitLife] = []
    for gang in gangs:
        del seen[0 if gang.visit is None else gang.visit.done :]
        if gang.visit is not None and gang.end == "visited":
            seen.append(gang.visit)
        for iteration in range(gang.first_iteration, gang.first_iteration + gang.rows):
            done = (epoch for epoch in epochs if epoch.iteration < iteration)
            epochs = [*done, EpochVisits(iteration, tuple(seen))]
            seen = []
    return epochs


Progress = Callable[[int, int], None]
"""Called with the visits done and the total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTrial:
    """`same`: whether the bytes equal the checkpoint of the run; None: it has none."""

    run: str
    trial: TrialId
    iteration: int
    visits: int
    checkpoint: str | None
    same: bool | None
    sha256: str  # hash of the resulting state
    state: State

    def to_dict(self) -> dict[str, object]:
        names = ("run", "trial", "iteration", "visits", "checkpoint", "same", "sha256")
        return {name: getattr(self, name) for name in names}


def retrace(
    found: FoundRun, trial: int | None = None, iteration: int | None = None, *, told: Progress | None = None
) -> ReplayedTrial:
    """`trial` defaults to the best one, `iteration` to that of its newest checkpoint."""
    replay = _Replay.of(found)
    kept = replay.kept()
    number, of_best = replay.best() if trial is None else (TrialId(trial), None)
    if number not in replay.orders:
        raise JobError(f"run {found.record.run} has no trial {number}; it has {len(replay.orders)}, from 0")
    newest = max(kept.get(number, ()), default=None)
    last = iteration or of_best or newest or len(replay.orders[number].epochs)
    epochs = replay.epochs(number, last)
    total, done, data = sum(len(epoch.visits) for _, epoch in epochs), 0, b""
    state: State | None = None
    for owner, epoch in epochs:
        for visit in epoch.visits:
            state, data = replay.visit(owner, epoch.iteration, visit, state)
            done += 1
            if told is not None:
                told(done, total)
    is_kept = last in kept.get(number, ())
    return ReplayedTrial(
        run=found.record.run,
        trial=number,
        iteration=last,
        visits=total,
        checkpoint=replay.store.path(number, last) if is_kept else None,
        same=bytes(replay.store.read(number, last)) == data if is_kept else None,
        sha256=hashlib.sha256(data).hexdigest(),
        state=state,
    )


@dataclass(frozen=True, slots=True)
class _Replay:
    found: FoundRun
    job: Job
    shipment: CodeShipment
    orders: dict[TrialId, TrialVisitOrder]
    partitions: SlotPartitions

    @classmethod
    def of(cls, found: FoundRun) -> _Replay:
        record = found.record
        if record.body is not RuntimeKind.RAY:
            raise JobError(f"run {record.run} is simulated and has no training to replay")
        journal = Journal.open(found.journal, read_only=True)
        job = at_home(Job.from_dict(started_of(record, journal).job, source=f"run {record.run}"), found)
        if job.data is None:
            raise JobError(f"run {record.run} did not hop; expected a run with execution: hopper")
        shipment = ship(job, job.metric or "metric")
        dataset = open_data(job, found.folder.path.absolute(), shipment.recipe)
        orders = read_visit_orders(journal.read(record.run))
        if dataset is None:
            raise JobError("the job has no partitioned data; expected the data of a hopping run")
        limit = None if job.data.memory is None else int(job.data.memory * 1e9)
        return cls(found, job, shipment, orders, SlotPartitions(dataset, limit, None))

    @property
    def store(self) -> Store:
        return open_store(self.job, self.found.folder)

    def kept(self) -> dict[TrialId, set[int]]:
        """Iterations with a checkpoint."""
        kept: dict[TrialId, set[int]] = {}
        for trial, iteration in self.store.list():
            kept.setdefault(TrialId(trial), set()).add(iteration)
        return kept

    def best(self) -> tuple[TrialId, int]:
        """Trial and iteration of the best model so far."""
        best = reopen(self.found).standing.best
        if best is None:
            raise ExecutionError(f"run {self.found.record.run} has no best model yet; name a trial")
        return TrialId(best.trial), best.iterations

    def epochs(self, trial: TrialId, last: int) -> list[tuple[TrialId, EpochVisits]]:
        """From the first iteration, which a fork has from its parent."""
        order = self.orders[trial]
        before: list[tuple[TrialId, EpochVisits]] = []
        if order.parent is not None:
            parent, inherited = order.parent
            before = self.epochs(parent, min(inherited, last))
        own = [(trial, epoch) for epoch in order.epochs if epoch.iteration <= last]
        together = [epoch.iteration for _, epoch in own if not epoch.visits]
        if together:
            raise ExecutionError(
                f"iteration {together[0]} of trial {trial} was trained by all workers at once and has no "
                f"visit order; expected an iteration below {together[0]}, where trial {trial} hopped"
            )
        if len(before) + len(own) < last:
            done = len(before) + len(own)
            raise JobError(f"trial {trial} has only {done} iterations; expected an iteration up to {done}")
        return before + own

    def visit(
        self, trial: TrialId, iteration: int, visit: VisitLife, state: State | None
    ) -> tuple[State, bytes]:
        loaded = self.partitions.take(visit.partition, (visit.partition,))
        done = make_visit(
            self.shipment.recipe,
            self.orders[trial].config,
            state,
            Shown(
                data=loaded.data,
                partition=visit.partition,
                rows=loaded.rows,
                iteration=iteration,
                evaluates=visit.evaluates,
            ),
            Conditions(seed=trial_seed(self.found.record.seed, trial), threads=self.job.slot.cpus or 1),
            keep=lambda training: encode(training.save(), pickles=self.job.pickles),
        )
        if done is None:
            raise ExecutionError(f"trial {trial} trains nothing on {visit}: the trainable has changed")
        return decode(done.kept, pickles=self.job.pickles), done.kept
