"""The promises of model hopping (Cerebro, section 3.1), checked on a finished schedule.

*Complete*: every trial visits every partition exactly once. *Isolated*: a trial is in one place at a time.
*Exclusive*: a worker trains one trial at a time. *Available*: a worker trains on partitions that it holds,
while it is there. *Non-preemptive*: a visit takes its time in one piece.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence

from elastune.errors import InvariantError
from elastune.hopper.epoch import Epoch, PartitionId, WorkerId
from elastune.hopper.events import WorkerJoined, WorkerLost
from elastune.hopper.schedule import Schedule, Visit
from elastune.hopper.simulation import Change

# Visits may seem to overlap by the rounding of their sums.
ROUNDING = 1e-9


def check_schedule(epoch: Epoch, schedule: Schedule, changes: Sequence[Change] = ()) -> None:
    """Raise at the first promise that the schedule breaks. Times must have been as expected."""
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


def _check_apart(promise: str, visits: Iterable[Visit], key: Callable[[Visit], Hashable]) -> None:
    groups: dict[Hashable, list[Visit]] = defaultdict(list)
    for visit in visits:
        groups[key(visit)].append(visit)
    for name, group in groups.items():
        group.sort(key=lambda visit: (visit.start_s, visit.end_s))
        for before, after in itertools.pairwise(group):
            if after.start_s < before.end_s - _slack(before.end_s):
                raise InvariantError(f"not {promise} {name} has {before} and {after} at once")


Stay = tuple[float, float, frozenset[PartitionId]]


def _stays(epoch: Epoch, changes: Sequence[Change]) -> dict[WorkerId, list[Stay]]:
    """When every worker was there, and with which partitions."""
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


def _check_available(visit: Visit, stays: Sequence[Stay]) -> None:
    for came_s, left_s, partitions in stays:
        there = came_s <= visit.start_s and visit.end_s <= left_s + _slack(left_s)
        if there and visit.unit.partition in partitions:
            return
    raise InvariantError(f"not available: {visit} ran where its partition was not")


def _check_whole(epoch: Epoch, visit: Visit, changes: Sequence[Change]) -> None:
    left = [each.left_s for each in epoch.underway if each.unit == visit.unit and visit.start_s == 0.0]
    joined = [change.worker for change in changes if isinstance(change, WorkerJoined)]
    hop_s = epoch.hops.seconds.get(visit.unit.trial, 0.0) if visit.hopped else 0.0
    usual = [
        hop_s + worker.unit_s[visit.unit.trial] * epoch.size(visit.unit.partition)
        for worker in (*epoch.workers, *joined)
        if worker.id == visit.worker
    ]
    took_s = visit.end_s - visit.start_s
    if not any(abs(took_s - each) <= _slack(visit.end_s) for each in (*left, *usual)):
        raise InvariantError(f"not in one piece: {visit} took {took_s} s, expected one of {usual}")


def _slack(at_s: float) -> float:
    return ROUNDING * max(1.0, abs(at_s)) if math.isfinite(at_s) else 0.0
