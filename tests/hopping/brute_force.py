"""The shortest makespan by trying every order of all units on all their holders."""

from __future__ import annotations

import math

from elastune.hopping.epoch import Epoch, Unit, WorkerId
from elastune.model.ids import TrialId


def shortest_s(epoch: Epoch) -> float:
    """Every order begins each unit as early as it can: one of the best schedules is among those. No hops."""
    workers = {worker.id: 0.0 for worker in epoch.workers}
    trials = dict.fromkeys(epoch.trials, 0.0)
    for each in epoch.underway:
        workers[each.worker] = trials[each.unit.trial] = each.left_s
    held = set().union(*(worker.partitions for worker in epoch.workers))
    units = frozenset(unit for unit in epoch.units_left if unit.partition in held)
    return _Search(epoch).best(units, workers, trials)


class _Search:
    def __init__(self, epoch: Epoch) -> None:
        self._epoch = epoch
        self._shortest = math.inf
        self._seen: set[object] = set()

    def best(
        self, units: frozenset[Unit], workers: dict[WorkerId, float], trials: dict[TrialId, float]
    ) -> float:
        over_s = max([*workers.values(), *trials.values()], default=0.0)
        key = (units, tuple(workers.values()), tuple(trials.values()))
        if over_s >= self._shortest or key in self._seen:
            return self._shortest
        self._seen.add(key)
        if not units:
            self._shortest = over_s
        for unit in sorted(units):
            for worker in self._epoch.workers:
                if unit.partition in worker.partitions:
                    seconds = worker.unit_s[unit.trial] * self._epoch.size(unit.partition)
                    end_s = max(workers[worker.id], trials[unit.trial]) + seconds
                    self.best(units - {unit}, workers | {worker.id: end_s}, trials | {unit.trial: end_s})
        return self._shortest
