"""`randomized`: Cerebro's Algorithms 1 and 2 (section 5.3), replica-aware (5.5), with Q and Q' (5.6).

Workers are gone through in order; each free one gets a random unit of those whose trial is free and whose
partition it holds. Deviations: the paper shuffles all of Q and takes the first such unit, which is the same
as drawing one of them evenly; and instead of waiting WAIT_TIME we are asked at every event.
"""

from __future__ import annotations

import numpy as np

from elastune.hopper.floor import Floor
from elastune.hopper.scheduler import Assignment


class Randomized:
    """Nothing is drawn where nothing can start, so being asked more often changes nothing."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)

    def dispatch(self, floor: Floor) -> tuple[Assignment, ...]:
        free = floor.trial_free.copy()
        chosen = []
        for row in np.flatnonzero(floor.worker_free):
            trials, columns = np.nonzero(floor.todo & free[:, None] & floor.holds[row])
            if len(trials):
                drawn = int(self._draw.integers(len(trials)))
                free[trials[drawn]] = False
                unit = floor.unit(int(trials[drawn]), int(columns[drawn]))
                chosen.append(Assignment(unit, floor.workers[row].id))
        return tuple(chosen)
