"""Runs an online scheduler against given unit times: the whole schedule, before anything has been trained."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from elastune.errors import InvariantError
from elastune.hopper.epoch import Epoch, Unit, Worker, WorkerId
from elastune.hopper.events import UnitEnded, UnitFailed, UnitStarted, WorkerJoined, WorkerLost
from elastune.hopper.floor import Floor
from elastune.hopper.lower_bound import lower_bound_s
from elastune.hopper.schedule import Schedule, Visit
from elastune.hopper.scheduler import Assignment, Scheduler

Change = WorkerLost | WorkerJoined | UnitFailed
"""What may happen to a simulated epoch from outside. A failure where nothing runs is none."""

ActualTime = Callable[[Unit, WorkerId, float], float]
"""How long a unit really takes on a worker, given what was expected."""

# Ends that differ by less than the rounding of their sums are one instant: those workers are free together.
ROUNDING = 1e-12


def simulate(
    epoch: Epoch,
    scheduler: Scheduler,
    *,
    changes: Sequence[Change] = (),
    actual_s: ActualTime | None = None,
    bound_s: float | None = None,
) -> Schedule:
    """The schedule that comes out if the scheduler is asked at every end and every change.

    The bound is that of the expected times, with all workers there from first to last; who knows it may
    give it.
    """
    run = _Run(epoch, actual_s or _as_expected)
    run.start(scheduler)
    for change in sorted(changes, key=lambda change: change.at_s):
        run.go_on(scheduler, until_s=change.at_s)
        if run.floor.is_over:
            break
        run.change(change)
        run.start(scheduler)
    run.go_on(scheduler, until_s=math.inf)
    if bound_s is None:
        bound_s = lower_bound_s(_with_everyone(epoch, changes) if changes else epoch)
    return run.schedule(bound_s)


def _as_expected(_unit: Unit, _worker: WorkerId, expected_s: float) -> float:
    return expected_s


@dataclass(slots=True)
class _Run:
    """The floor, the visits that are open on it with their true ends, and those that are over."""

    epoch: Epoch
    actual_s: ActualTime
    floor: Floor = field(init=False)
    ends: list[tuple[float, int, Visit]] = field(default_factory=list)
    open: dict[WorkerId, Visit] = field(default_factory=dict)
    visits: list[Visit] = field(default_factory=list)
    cut: list[Visit] = field(default_factory=list)
    came_s: dict[WorkerId, float] = field(default_factory=dict)
    stays: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.floor = Floor(self.epoch)
        self.came_s = {worker.id: 0.0 for worker in self.epoch.workers}
        for each in self.epoch.underway:
            self._begin(
                Visit(unit=each.unit, worker=each.worker, start_s=0.0, end_s=each.left_s, hopped=False)
            )

    def start(self, scheduler: Scheduler) -> None:
        """Begin what the scheduler says."""
        for each in scheduler.dispatch(self.floor):
            visit = self._visit(each)
            self.floor.handle(UnitStarted(at_s=self.floor.now_s, unit=each.unit, worker=each.worker))
            self._begin(visit)
        if not self.open and (self.floor.todo & self.floor.holds.any(axis=0)).any():
            name = type(scheduler).__name__
            raise InvariantError(f"{name} starts nothing, though units wait and everyone is free")

    def go_on(self, scheduler: Scheduler, *, until_s: float) -> None:
        """End and begin units up to this instant."""
        while self.ends and self.ends[0][0] <= until_s:
            now_s = self.ends[0][0]
            while self.ends and self.ends[0][0] <= now_s * (1 + ROUNDING):
                end_s, _, visit = heapq.heappop(self.ends)
                if self.open.get(visit.worker) is visit:
                    self.visits.append(self.open.pop(visit.worker))
                    self.floor.handle(UnitEnded(at_s=end_s, worker=visit.worker))
            self.start(scheduler)

    def change(self, change: Change) -> None:
        match change:
            case WorkerJoined(worker=worker):
                self.came_s[worker.id] = change.at_s
            case WorkerLost(worker=worker_id):
                self.stays.append((self.came_s.pop(worker_id), change.at_s))
                self._cut(worker_id, change.at_s)
            case UnitFailed(worker=worker_id):
                if worker_id not in self.open:
                    return
                self._cut(worker_id, change.at_s)
        self.floor.handle(change)

    def schedule(self, bound_s: float) -> Schedule:
        last_s = max((visit.end_s for visit in self.visits), default=0.0)
        stays = [*self.stays, *((came_s, last_s) for came_s in self.came_s.values())]
        return Schedule(
            visits=tuple(sorted(self.visits, key=lambda visit: (visit.start_s, visit.end_s, visit.worker))),
            bound_s=bound_s,
            worker_s=sum(max(0.0, min(left_s, last_s) - came_s) for came_s, left_s in stays),
            cut=tuple(self.cut),
            unfinished=self.floor.snapshot().units_left,
        )

    def _visit(self, each: Assignment) -> Visit:
        floor = self.floor
        hopped = floor.must_hop(each.unit.trial, each.worker)
        expected_s = floor.expected_s(each.unit, each.worker)
        return Visit(
            unit=each.unit,
            worker=each.worker,
            start_s=floor.now_s,
            end_s=floor.now_s + self.actual_s(each.unit, each.worker, expected_s),
            hopped=hopped,
            hop_bytes=self.epoch.hops.model_bytes.get(each.unit.trial, 0) if hopped else 0,
        )

    def _begin(self, visit: Visit) -> None:
        self.open[visit.worker] = visit
        heapq.heappush(self.ends, (visit.end_s, len(self.visits) + len(self.cut) + len(self.open), visit))

    def _cut(self, worker: WorkerId, at_s: float) -> None:
        visit = self.open.pop(worker, None)
        if visit is not None:
            self.cut.append(replace(visit, end_s=at_s))


def _with_everyone(epoch: Epoch, changes: Sequence[Change]) -> Epoch:
    """An epoch that is never harder: every worker that ever comes is there at its best, all the time.

    What is underway may be cut and begun elsewhere, so nothing certain is known of it.
    """
    best: dict[WorkerId, Worker] = {}
    joined = [change.worker for change in changes if isinstance(change, WorkerJoined)]
    for worker in (*epoch.workers, *joined):
        other = best.get(worker.id, worker)
        best[worker.id] = Worker(
            id=worker.id,
            partitions=worker.partitions | other.partitions,
            unit_s={trial: min(worker.unit_s[trial], other.unit_s[trial]) for trial in epoch.trials},
        )
    done = epoch.done.union(each.unit for each in epoch.underway)
    return replace(epoch, workers=tuple(best.values()), done=done, underway=())
