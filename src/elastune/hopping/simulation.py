"""Runs an online scheduler with given unit times to a whole schedule, and checks finished schedules.

The guarantees of model hopping (Cerebro, section 3.1): *complete*: every trial visits every partition exactly
once; *isolated*: a trial is on one worker at a time; *exclusive*: a worker trains one trial at a time;
*available*: a worker trains on partitions that it holds, while it is up; *non-preemptive*: a visit is not
interrupted.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from elastune.errors import InvariantError
from elastune.hopping.epoch import (
    Epoch,
    HopWorker,
    PartitionId,
    Schedule,
    ScheduledVisit,
    Unit,
    UnitEnded,
    UnitFailed,
    UnitStarted,
    WorkerId,
    WorkerJoined,
    WorkerLost,
)
from elastune.hopping.epoch_state import Assignment, EpochState, Scheduler
from elastune.hopping.lower_bound import lower_bound_s

Change = WorkerLost | WorkerJoined | UnitFailed
"""External changes of a simulated epoch. A failure of an idle worker has no effect."""
ActualTime = Callable[[Unit, WorkerId, float], float]
"""The true time of a unit on a worker, given the expected one."""
# Ends that differ by less than the rounding of their sums are one instant: those workers are free together.
ROUNDING = 1e-12
# Visits may seem to overlap by the rounding of their sums.
CHECK_ROUNDING = 1e-9


def simulate(
    epoch: Epoch,
    scheduler: Scheduler,
    *,
    changes: Sequence[Change] = (),
    actual_s: ActualTime | None = None,
    bound_s: float | None = None,
) -> Schedule:
    """The schedule that results if the scheduler is called at every end and every change."""
    run = _SimulatedEpoch(epoch, actual_s or (lambda _unit, _worker, expected_s: expected_s))
    run.start(scheduler)
    for change in sorted(changes, key=lambda change: change.at_s):
        run.go_on(scheduler, until_s=change.at_s)
        if run.state.is_over:
            break
        run.change(change)
        run.start(scheduler)
    run.go_on(scheduler, until_s=math.inf)
    if bound_s is None:  # by the expected times, with all workers up from first to last
        bound_s = lower_bound_s(_with_all_workers(epoch, changes) if changes else epoch)
    return run.schedule(bound_s)


@dataclass(slots=True)
class _SimulatedEpoch:
    """The state, the open visits with their true ends, and those that are over."""

    epoch: Epoch
    actual_s: ActualTime
    state: EpochState = field(init=False)
    ends: list[tuple[float, int, ScheduledVisit]] = field(default_factory=list)
    open: dict[WorkerId, ScheduledVisit] = field(default_factory=dict)
    visits: list[ScheduledVisit] = field(default_factory=list)
    cut: list[ScheduledVisit] = field(default_factory=list)
    came_s: dict[WorkerId, float] = field(default_factory=dict)
    stays: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = EpochState(self.epoch)
        self.came_s = {worker.id: 0.0 for worker in self.epoch.workers}
        for each in self.epoch.underway:
            unit, worker, end_s = each.unit, each.worker, each.left_s
            self._begin(ScheduledVisit(unit=unit, worker=worker, start_s=0.0, end_s=end_s, hopped=False))

    def start(self, scheduler: Scheduler) -> None:
        for each in scheduler.dispatch(self.state):
            visit = self._visit(each)
            self.state.handle(UnitStarted(at_s=self.state.now_s, unit=each.unit, worker=each.worker))
            self._begin(visit)
        if not self.open and (self.state.todo & self.state.holds.any(axis=0)).any():
            name = type(scheduler).__name__
            raise InvariantError(f"{name} starts no unit, though units wait and all workers are free")

    def go_on(self, scheduler: Scheduler, *, until_s: float) -> None:
        while self.ends and self.ends[0][0] <= until_s:
            now_s = self.ends[0][0]
            while self.ends and self.ends[0][0] <= now_s * (1 + ROUNDING):
                end_s, _, visit = heapq.heappop(self.ends)
                if self.open.get(visit.worker) is visit:
                    self.visits.append(self.open.pop(visit.worker))
                    self.state.handle(UnitEnded(at_s=end_s, worker=visit.worker))
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
        self.state.handle(change)

    def schedule(self, bound_s: float) -> Schedule:
        last_s = max((visit.end_s for visit in self.visits), default=0.0)
        stays = [*self.stays, *((came_s, last_s) for came_s in self.came_s.values())]
        return Schedule(
            visits=tuple(sorted(self.visits, key=lambda visit: (visit.start_s, visit.end_s, visit.worker))),
            bound_s=bound_s,
            worker_s=sum(max(0.0, min(left_s, last_s) - came_s) for came_s, left_s in stays),
            cut=tuple(self.cut),
            unfinished=self.state.snapshot().units_left,
        )

    def _visit(self, each: Assignment) -> ScheduledVisit:
        state = self.state
        hopped = state.must_hop(each.unit.trial, each.worker)
        expected_s = state.expected_s(each.unit, each.worker)
        return ScheduledVisit(
            unit=each.unit,
            worker=each.worker,
            start_s=state.now_s,
            end_s=state.now_s + self.actual_s(each.unit, each.worker, expected_s),
            hopped=hopped,
            hop_bytes=self.epoch.hops.model_bytes.get(each.unit.trial, 0) if hopped else 0,
        )

    def _begin(self, visit: ScheduledVisit) -> None:
        self.open[visit.worker] = visit
        heapq.heappush(self.ends, (visit.end_s, len(self.visits) + len(self.cut) + len(self.open), visit))

    def _cut(self, worker: WorkerId, at_s: float) -> None:
        visit = self.open.pop(worker, None)
        if visit is not None:
            self.cut.append(replace(visit, end_s=at_s))


def _with_all_workers(epoch: Epoch, changes: Sequence[Change]) -> Epoch:
    """An epoch that takes no longer: every worker that ever joins is up all the time, at its best."""
    best: dict[WorkerId, HopWorker] = {}
    joined = [change.worker for change in changes if isinstance(change, WorkerJoined)]
    for worker in (*epoch.workers, *joined):
        other = best.get(worker.id, worker)
        best[worker.id] = HopWorker(
            id=worker.id,
            partitions=worker.partitions | other.partitions,
            unit_s={trial: min(worker.unit_s[trial], other.unit_s[trial]) for trial in epoch.trials},
        )
    # Units underway may be cut and begun elsewhere, so they are left out.
    done = epoch.done.union(each.unit for each in epoch.underway)
    return replace(epoch, workers=tuple(best.values()), done=done, underway=())


def check_schedule(epoch: Epoch, schedule: Schedule, changes: Sequence[Change] = ()) -> None:
    """Raise at the first guarantee that the schedule breaks. Times must have been as expected."""
    _check_complete(epoch, schedule)
    everything = (*schedule.visits, *schedule.cut)
    _check_apart("isolated: trial", everything, lambda visit: visit.unit.trial)
    _check_apart("exclusive: worker", everything, lambda visit: visit.worker)
    stays = _stays(epoch, changes)
    for visit in everything:
        _check_available(visit, stays[visit.worker])
    for visit in schedule.visits:
        _check_whole(epoch, visit, changes)


def _check_complete(epoch: Epoch, schedule: Schedule) -> None:
    visited = Counter(visit.unit for visit in schedule.visits)
    expected = Counter([*epoch.units_left, *(each.unit for each in epoch.underway)])
    found = visited + Counter(schedule.unfinished)
    if found != expected:
        wrong = next(unit for unit in found | expected if found[unit] != expected[unit])
        raise InvariantError(
            f"not complete: {wrong} was visited {visited[wrong]} times, expected {expected[wrong]}"
        )


def _check_apart(
    guarantee: str, visits: Iterable[ScheduledVisit], key: Callable[[ScheduledVisit], Hashable]
) -> None:
    groups: dict[Hashable, list[ScheduledVisit]] = defaultdict(list)
    for visit in visits:
        groups[key(visit)].append(visit)
    for name, group in groups.items():
        group.sort(key=lambda visit: (visit.start_s, visit.end_s))
        for before, after in itertools.pairwise(group):
            if after.start_s < before.end_s - _slack(before.end_s):
                raise InvariantError(f"not {guarantee} {name} has {before} and {after} at once")


Stay = tuple[float, float, frozenset[PartitionId]]


def _stays(epoch: Epoch, changes: Sequence[Change]) -> dict[WorkerId, list[Stay]]:
    """When every worker was up, and with which partitions."""
    stays: dict[WorkerId, list[Stay]] = defaultdict(list)
    for worker in epoch.workers:
        stays[worker.id].append((0.0, math.inf, worker.partitions))
    for change in sorted(changes, key=lambda change: change.at_s):
        match change:
            case WorkerJoined(worker=worker):
                stays[worker.id].append((change.at_s, math.inf, worker.partitions))
            case WorkerLost(worker=lost):
                came_s, _, partitions = stays[lost].pop()
                stays[lost].append((came_s, change.at_s, partitions))
    return stays


def _check_available(visit: ScheduledVisit, stays: Sequence[Stay]) -> None:
    for came_s, left_s, partitions in stays:
        is_up = came_s <= visit.start_s and visit.end_s <= left_s + _slack(left_s)
        if is_up and visit.unit.partition in partitions:
            return
    raise InvariantError(f"not available: {visit} ran on a worker without its partition")


def _check_whole(epoch: Epoch, visit: ScheduledVisit, changes: Sequence[Change]) -> None:
    left = [each.left_s for each in epoch.underway if each.unit == visit.unit and visit.start_s == 0.0]
    joined = [change.worker for change in changes if isinstance(change, WorkerJoined)]
    hop_s = epoch.hops.seconds.get(visit.unit.trial, 0.0) if visit.hopped else 0.0
    usual = [
        hop_s + worker.unit_s[visit.unit.trial] * epoch.size(visit.unit.partition) + last_s
        for worker in (*epoch.workers, *joined)
        if worker.id == visit.worker
        for last_s in (0.0, epoch.last_s.get(visit.unit.trial, 0.0))
    ]
    took_s = visit.end_s - visit.start_s
    if not any(abs(took_s - each) <= _slack(visit.end_s) for each in (*left, *usual)):
        raise InvariantError(f"not in one piece: {visit} took {took_s} s, expected one of {usual}")


def _slack(at_s: float) -> float:
    return CHECK_ROUNDING * max(1.0, abs(at_s)) if math.isfinite(at_s) else 0.0
