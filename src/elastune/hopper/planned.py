"""Keeps to a schedule made before, while the world does not keep to its times.

Of every worker and every trial only the *order* of visits is taken from the plan: a unit starts as soon as it
is the next one for both. So a late unit moves those behind it and nothing else; one that failed comes again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from elastune.hopper.epoch import Epoch, WorkerId
from elastune.hopper.floor import Floor
from elastune.hopper.schedule import Visit
from elastune.hopper.scheduler import Assignment
from elastune.place import TrialId

Plan = tuple[Visit, ...]


@dataclass(slots=True)
class Planned:
    """Plans at the first question, and again whenever a worker has come or gone."""

    plan: Callable[[Epoch], Plan]
    _visits: Plan = ()
    _first: int = 0
    _roster: int | None = None

    def dispatch(self, floor: Floor) -> tuple[Assignment, ...]:
        if self._roster != floor.roster:
            self._visits, self._first, self._roster = self.plan(floor.snapshot()), 0, floor.roster
        while self._first < len(self._visits) and floor.is_done(self._visits[self._first].unit):
            self._first += 1
        chosen = []
        trials: set[TrialId] = set()
        workers: set[WorkerId] = set()
        for visit in itertools.islice(self._visits, self._first, None):
            unit, worker = visit.unit, visit.worker
            if floor.is_todo(unit):
                if unit.trial not in trials and worker not in workers and floor.can_start(unit, worker):
                    chosen.append(Assignment(unit, worker))
                trials.add(unit.trial)
                workers.add(worker)
                if len(workers) == len(floor.workers):
                    break
        return tuple(chosen)
