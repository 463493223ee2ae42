"""The ways of models through the data, from a journal: which partitions, in which order, epoch by epoch.

A trial of a hopping run trained once more, alone, along the way that its journal tells.

Training is sequential SGD over the partitions in the order of the visits, so the same order gives the same
weights, bit for bit on the same kind of machine. That is what this shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from elastune.checkpoints.encoding import decode, encode
from elastune.checkpoints.store import Store
from elastune.core.events import Config
from elastune.data.dataset import Dataset
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
from elastune.runtime.ray.visitor import SlotPartitions
from elastune.setup.data import open_data
from elastune.training.trainable import State
from elastune.training.visits import Conditions, Shown, make_visit
from elastune.training.worker import trial_seed


@dataclass(frozen=True, slots=True)
class EpochVisits:
    """The visits of one iteration that counted, in their order; none: all workers trained it at once."""

    iteration: int
    visits: tuple[VisitLife, ...]


@dataclass(frozen=True, slots=True)
class TrialVisitOrder:
    """Of one trial. `parent`: it was forked from that one, after so many iterations."""

    config: Config
    parent: tuple[TrialId, int] | None
    epochs: tuple[EpochVisits, ...]


def read_itineraries(entries: Iterable[Entry]) -> dict[TrialId, TrialVisitOrder]:
    """What was lost with a worker and done again is there once: as it counted."""
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
    """Of one trial; its gangs followed each other."""
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


Told = Callable[[int, int], None]
"""How many visits are done, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTrial:
    """`same`: the bytes are those of the checkpoint that the run kept; None: it kept none."""

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
    found: FoundRun, trial: int | None = None, iteration: int | None = None, *, told: Told | None = None
) -> ReplayedTrial:
    """`trial`: the best, unless another is named. `iteration`: that of its newest checkpoint."""
    scene = _Replay.of(found)
    kept = scene.kept()
    number, of_best = scene.best() if trial is None else (TrialId(trial), None)
    if number not in scene.ways:
        raise JobError(f"run {found.record.run} has no trial {number}; it has {len(scene.ways)}, from 0")
    newest = max((each for each in kept.get(number, ())), default=None)
    last = iteration or of_best or newest or len(scene.ways[number].epochs)
    epochs = scene.epochs(number, last)
    total, done, data = sum(len(epoch.visits) for _, epoch in epochs), 0, b""
    state: State | None = None
    for owner, epoch in epochs:
        for visit in epoch.visits:
            state, data = scene.visit(owner, epoch.iteration, visit, state)
            done += 1
            if told is not None:
                told(done, total)
    is_there = last in kept.get(number, ())
    return ReplayedTrial(
        run=found.record.run,
        trial=number,
        iteration=last,
        visits=total,
        checkpoint=scene.store.path(number, last) if is_there else None,
        same=bytes(scene.store.read(number, last)) == data if is_there else None,
        sha256=hashlib.sha256(data).hexdigest(),
        state=state,
    )


@dataclass(frozen=True, slots=True)
class _Replay:
    found: FoundRun
    job: Job
    shipment: CodeShipment
    ways: dict[TrialId, TrialVisitOrder]
    shelves: SlotPartitions

    @classmethod
    def of(cls, found: FoundRun) -> _Replay:
        record = found.record
        if record.body is not RuntimeKind.RAY:
            raise JobError(f"run {record.run} is simulated: nothing was trained that could be retraced")
        journal = Journal.open(found.journal, read_only=True)
        job = at_home(Job.from_dict(started_of(record, journal).job, source=f"run {record.run}"), found)
        if job.data is None:
            raise JobError(f"run {record.run} did not hop; expected a run with execution: hopper")
        shipment = ship(job, job.metric or "metric")
        dataset = open_data(job, found.folder.path.absolute(), shipment.recipe)
        ways = read_itineraries(journal.read(record.run))
        return cls(found, job, shipment, ways, _shelves(job, dataset))

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
        """The best model so far: its trial and iteration."""
        best = reopen(self.found).standing.best
        if best is None:
            raise ExecutionError(f"run {self.found.record.run} has no best model yet; name a trial")
        return TrialId(best.trial), best.iterations

    def epochs(self, trial: TrialId, last: int) -> list[tuple[TrialId, EpochVisits]]:
        """From the very beginning, which for a fork is that of its parent."""
        way = self.ways[trial]
        before: list[tuple[TrialId, EpochVisits]] = []
        if way.parent is not None:
            parent, inherited = way.parent
            before = self.epochs(parent, min(inherited, last))
        own = [(trial, epoch) for epoch in way.epochs if epoch.iteration <= last]
        together = [epoch.iteration for _, epoch in own if not epoch.visits]
        if together:
            raise ExecutionError(
                f"iteration {together[0]} of trial {trial} was trained by all workers at once and has no "
                f"order of visits; expected an iteration below {together[0]}, where trial {trial} hopped"
            )
        if len(before) + len(own) < last:
            raise JobError(f"trial {trial} has done {len(before) + len(own)} iterations; expected up to that")
        return before + own

    def visit(
        self, trial: TrialId, iteration: int, visit: VisitLife, state: State | None
    ) -> tuple[State, bytes]:
        loaded = self.shelves.take(visit.partition, (visit.partition,))
        done = make_visit(
            self.shipment.recipe,
            self.ways[trial].config,
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
            raise ExecutionError(f"trial {trial} had nothing to train on {visit}: the trainable has changed")
        return decode(done.kept, pickles=self.job.pickles), done.kept


def _shelves(job: Job, dataset: Dataset | None) -> SlotPartitions:
    if dataset is None or job.data is None:
        raise JobError("there are no partitioned data to retrace a way through")
    limit = None if job.data.memory is None else int(job.data.memory * 1e9)
    return SlotPartitions(dataset, limit, None)
