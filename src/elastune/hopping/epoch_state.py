"""The state of an epoch: which units are left, underway or done, and which workers and trials are free.

It is the Q and Q' of Cerebro (section 5.6) and changes only in `handle`. It decides nothing; a `Scheduler`
reads it at every event and names the units to start. Trials, partitions and workers are rows of its arrays,
in the order in which they came; a lost worker keeps its row and holds nothing.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from elastune.errors import InvariantError
from elastune.hopping.epoch import (
    Epoch,
    Event,
    Hops,
    HopWorker,
    PartitionId,
    TrialDropped,
    Underway,
    Unit,
    UnitEnded,
    UnitFailed,
    UnitStarted,
    WorkerId,
    WorkerJoined,
    WorkerLost,
    check_worker,
)
from elastune.model.ids import TrialId

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


# Of a unit: those that end within this time of each other, or are late by as much, end at once. More would be
# waste where units differ: a free worker may wait for so long.
AT_ONCE = 0.02
# The place of a model that does not exist yet.
_NEW = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    unit: Unit
    expected_end_s: float


class EpochState:
    def __init__(self, epoch: Epoch, *, now_s: float = 0.0) -> None:
        self.now_s = now_s
        self.trials: tuple[TrialId, ...] = epoch.trials
        self.partitions: tuple[PartitionId, ...] = epoch.partitions
        self.workers: list[HopWorker] = []
        self.running: dict[WorkerId, Running] = {}
        self.roster = 0  # grows whenever a worker joins or is lost: earlier plans are out of date
        self.sizes: Floats = np.array([epoch.size(each) for each in epoch.partitions], dtype=float)
        self.hop_s: Floats = np.array([epoch.hops.seconds.get(t, 0.0) for t in epoch.trials], dtype=float)
        self.last_s: Floats = np.array([epoch.last_s.get(t, 0.0) for t in epoch.trials], dtype=float)
        self.later_s: Floats = np.array([epoch.later_s.get(t, 0.0) for t in epoch.trials], dtype=float)
        self.todo: Bools = np.ones((len(epoch.trials), len(epoch.partitions)), dtype=bool)
        self.trial_free: Bools = np.ones(len(epoch.trials), dtype=bool)
        self.holds: Bools = np.zeros((0, len(epoch.partitions)), dtype=bool)
        self.worker_free: Bools = np.zeros(0, dtype=bool)
        self.train_s: Floats = np.zeros((0, len(epoch.trials)))
        self._epoch = epoch
        self._trial_row = {trial: row for row, trial in enumerate(epoch.trials)}
        self._column = {partition: column for column, partition in enumerate(epoch.partitions)}
        self._worker_row: dict[WorkerId, int] = {}
        self._model_row: Indices = np.array([_NEW if t in epoch.hops.new else -1 for t in epoch.trials], int)
        self._done: set[Unit] = set(epoch.done)
        for unit in epoch.done:
            self.todo[self._trial_row[unit.trial], self._column[unit.partition]] = False
        for worker in epoch.workers:
            self._join(worker)
        for trial, at in epoch.hops.at.items():
            self._model_row[self._trial_row[trial]] = self._worker_row[at]
        for each in epoch.underway:
            self._begin(each.unit, each.worker, now_s + each.left_s)

    def handle(self, event: Event) -> None:
        self.now_s = event.at_s
        match event:
            case UnitStarted(unit=unit, worker=worker):
                self._check_startable(unit, worker)
                self._begin(unit, worker, event.at_s + self.expected_s(unit, worker))
            case UnitEnded(worker=worker):
                self._done.add(self._leave(worker))
            case UnitFailed(worker=worker):
                self._put_back(self._leave(worker))
            case WorkerLost(worker=worker):
                self._lose(worker)
            case WorkerJoined(worker=worker):
                check_worker(worker, self._epoch)
                self._join(worker)
            case TrialDropped(trial=trial):
                self._drop(trial)

    @property
    def is_over(self) -> bool:
        return not self.running and not self.todo.any()

    def is_present(self, worker: WorkerId) -> bool:
        row = self._worker_row.get(worker)
        return row is not None and (bool(self.worker_free[row]) or worker in self.running)

    def is_todo(self, unit: Unit) -> bool:
        return bool(self.todo[self._trial_row[unit.trial], self._column[unit.partition]])

    def is_done(self, unit: Unit) -> bool:
        """Visited, or of a trial that was dropped."""
        return unit in self._done

    def can_start(self, unit: Unit, worker: WorkerId) -> bool:
        row = self._worker_row.get(worker)
        if row is None or not self.worker_free[row] or not self.trial_free[self._trial_row[unit.trial]]:
            return False
        return self.is_todo(unit) and bool(self.holds[row, self._column[unit.partition]])

    def must_hop(self, trial: TrialId, worker: WorkerId) -> bool:
        at = int(self._model_row[self._trial_row[trial]])
        if at < 0:
            return at != _NEW
        return bool(self.node_rows[at] != self.node_rows[self._worker_row[worker]])

    def expected_s(self, unit: Unit, worker: WorkerId) -> float:
        """How long the unit would take on this worker now, with the hop and the save if needed."""
        trial = self._trial_row[unit.trial]
        training = self.train_s[self._worker_row[worker], trial] * self.sizes[self._column[unit.partition]]
        hop_s = self.hop_s[trial] if self.must_hop(unit.trial, worker) else 0.0
        last_s = self.last_s[trial]
        if last_s and np.count_nonzero(self.todo[trial]) > 1:
            last_s = 0.0
        return float(training + hop_s + last_s)

    def waits_s(self) -> tuple[Floats, Floats]:
        """How long each worker and each trial is still busy."""
        workers_s, trials_s = np.zeros(len(self.workers)), np.zeros(len(self.trials))
        for worker, running in self.running.items():
            left_s = max(0.0, running.expected_end_s - self.now_s)
            if self._ends_now(worker, running):
                left_s = 0.0
            workers_s[self._worker_row[worker]] = trials_s[self._trial_row[running.unit.trial]] = left_s
        return workers_s, trials_s

    def free_now(self) -> tuple[Indices, Indices]:
        """The rows of workers and trials that are free, or will be in a moment."""
        workers, trials = self.worker_free.copy(), self.trial_free.copy()
        for worker, running in self.running.items():
            if self._ends_now(worker, running):
                workers[self._worker_row[worker]] = trials[self._trial_row[running.unit.trial]] = True
        return np.flatnonzero(workers), np.flatnonzero(trials)

    def _ends_now(self, worker: WorkerId, running: Running) -> bool:
        """Units that end at one instant are reported one after the other."""
        trial, column = self._trial_row[running.unit.trial], self._column[running.unit.partition]
        usual_s = float(self.train_s[self._worker_row[worker], trial] * self.sizes[column])
        return abs(running.expected_end_s - self.now_s) <= AT_ONCE * usual_s

    def model_rows(self) -> Indices:
        """The row of the worker that has each trial's model, -1 for the store."""
        return self._model_row

    def is_near(self) -> Bools:
        """By (worker, trial): whether the trial's model is on the worker's node."""
        rows = self._model_row
        if not len(self.workers):
            return np.zeros((0, len(rows)), dtype=bool)
        at: Indices = np.where(rows >= 0, self.node_rows[np.maximum(rows, 0)], -1)
        near: Bools = (self.node_rows[:, None] == at) | (rows == _NEW)
        return near

    def unit(self, trial_row: int, column: int) -> Unit:
        return Unit(self.trials[trial_row], self.partitions[column])

    def snapshot(self) -> Epoch:
        """The rest of the epoch as an epoch that begins now."""
        workers_s, _ = self.waits_s()
        stored = {trial: row for trial, row in zip(self.trials, self._model_row, strict=True) if row >= 0}
        return Epoch(
            trials=self.trials,
            partitions=self.partitions,
            workers=tuple(each for each in self.workers if self.is_present(each.id)),
            sizes=self._epoch.sizes,
            hops=Hops(
                seconds=self._epoch.hops.seconds,
                model_bytes=self._epoch.hops.model_bytes,
                at={trial: self.workers[row].id for trial, row in stored.items()},
                new=frozenset(t for t, row in zip(self.trials, self._model_row, strict=True) if row == _NEW),
            ),
            last_s=self._epoch.last_s,
            later_s=self._epoch.later_s,
            done=frozenset(self._done),
            underway=tuple(
                Underway(unit=each.unit, worker=worker, left_s=float(workers_s[self._worker_row[worker]]))
                for worker, each in self.running.items()
            ),
        )

    @functools.cached_property
    def unit_s(self) -> Floats:
        """Seconds of a unit by (worker, trial, partition) if its trial has to hop, held or not."""
        seconds: Floats = self.train_s[:, :, None] * self.sizes + self.hop_s[:, None]
        return seconds

    @functools.cached_property
    def node_rows(self) -> Indices:
        """For each worker, the row of the first one on its node."""
        nodes = [each.node or each.id for each in self.workers]
        return np.array([nodes.index(node) for node in nodes], dtype=int)

    @functools.cached_property
    def has_replicas(self) -> bool:
        return bool((self.holds.sum(axis=0) > 1).any())

    def _join(self, worker: HopWorker) -> None:
        if self.is_present(worker.id):
            raise InvariantError(f"worker {worker.id} joined, but it is already present")
        row = self._worker_row.setdefault(worker.id, len(self.workers))
        if row == len(self.workers):
            self.workers.append(worker)
            self.holds = np.vstack([self.holds, np.zeros_like(self.sizes, dtype=bool)])
            self.train_s = np.vstack([self.train_s, np.zeros_like(self.hop_s)])
            self.worker_free = np.append(self.worker_free, False)
        self.workers[row] = worker
        self.holds[row] = [partition in worker.partitions for partition in self.partitions]
        self.train_s[row] = [worker.unit_s[trial] for trial in self.trials]
        self.worker_free[row] = True
        self._roster_changed()

    def _lose(self, worker: WorkerId) -> None:
        if not self.is_present(worker):
            raise InvariantError(f"worker {worker} was lost, but it is not present")
        if worker in self.running:
            self._put_back(self._leave(worker))
        row = self._worker_row[worker]
        self.worker_free[row] = False
        self.holds[row] = False
        # The store still has the models of a lost worker; they have to be fetched again.
        self._model_row[self._model_row == row] = -1
        self._roster_changed()

    def _roster_changed(self) -> None:
        self.roster += 1
        for cached in ("unit_s", "has_replicas", "node_rows"):
            self.__dict__.pop(cached, None)

    def _check_startable(self, unit: Unit, worker: WorkerId) -> None:
        if not self.can_start(unit, worker):
            raise InvariantError(
                f"{unit} cannot start on worker {worker}: expected a free worker that holds the partition, "
                "and a free trial that has not visited it yet"
            )

    def _begin(self, unit: Unit, worker: WorkerId, expected_end_s: float) -> None:
        trial = self._trial_row[unit.trial]
        self.todo[trial, self._column[unit.partition]] = False
        self.trial_free[trial] = False
        self.worker_free[self._worker_row[worker]] = False
        self.running[worker] = Running(unit=unit, expected_end_s=expected_end_s)
        self._model_row[trial] = self._worker_row[worker]

    def _leave(self, worker: WorkerId) -> Unit:
        running = self.running.pop(worker, None)
        if running is None:
            raise InvariantError(f"a unit ended on worker {worker}, but none was underway there")
        self.trial_free[self._trial_row[running.unit.trial]] = True
        self.worker_free[self._worker_row[worker]] = True
        return running.unit

    def _put_back(self, unit: Unit) -> None:
        trial = self._trial_row[unit.trial]
        self.todo[trial, self._column[unit.partition]] = True
        self._model_row[trial] = -1  # the worker's copy is half trained; the checkpoint has to be fetched

    def _drop(self, trial: TrialId) -> None:
        for worker in [worker for worker, each in self.running.items() if each.unit.trial == trial]:
            self._done.add(self._leave(worker))
        row = self._trial_row[trial]
        self._done.update(self.unit(row, int(column)) for column in np.flatnonzero(self.todo[row]))
        self.todo[row] = False


@dataclass(frozen=True, slots=True)
class Assignment:
    unit: Unit
    worker: WorkerId


class Scheduler(Protocol):
    """Reads the state and never changes it; the caller starts the units and reports them to the state.

    While nothing is underway and a unit could start, at least one has to be named.
    """

    def dispatch(self, state: EpochState) -> tuple[Assignment, ...]:
        """Units to start now, each on its own worker. Empty: wait for the next event."""
        ...
