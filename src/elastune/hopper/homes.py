"""Which holder each unit is meant for, where partitions are replicated: loads first, the order later."""

from __future__ import annotations

import numpy as np

from elastune.hopper.floor import Bools, Floats, Floor, Indices
from elastune.hopper.relaxation import Load, relax

# A part of this size is the whole unit, but for the rounding of the solver.
WHOLE = 1 - 1e-6


def assign_homes(floor: Floor) -> Indices:
    """The row of a worker by (trial, partition); -1 without a holder.

    A vertex of the linear program cuts no more units than there are workers and trials. Those, and where the
    program is too large all, are given away one by one.
    """
    workers_s, trials_s = floor.waits_s()
    load = Load(
        seconds=np.where(floor.holds[:, None, :], floor.unit_s, np.inf),
        todo=floor.todo & floor.holds.any(axis=0),
        workers_s=workers_s,
        trials_s=trials_s,
    )
    if not len(floor.workers):
        return np.full(floor.todo.shape, -1)
    parts = load.ways.astype(float)
    if load.has_choice:
        relaxed = relax(load)
        parts = np.zeros(parts.shape) if relaxed is None else relaxed.parts
    homes = _give_away(load, parts.argmax(axis=0), load.todo & (parts.max(axis=0) < WHOLE))
    # Units underway may fail and come back: they are at home with the first holder.
    homes = np.where(load.todo, homes, floor.holds.argmax(axis=0))
    return np.where(floor.holds.any(axis=0), homes, -1)


def _give_away(load: Load, homes: Indices, is_open: Bools) -> Indices:
    """Every open unit, longest first, to the holder where neither worker nor trial gets long."""
    settled = load.todo & ~is_open
    seconds = np.take_along_axis(load.seconds, homes[None], axis=0)[0]
    workers_s = load.workers_s + np.bincount(homes[settled], seconds[settled], len(load.workers_s))
    trials_s = load.trials_s + np.where(settled, seconds, 0.0).sum(axis=1)
    given = homes.copy()
    trials, partitions = np.nonzero(is_open)
    shortest_s = load.seconds.min(axis=0)[trials, partitions]
    for index in np.argsort(-shortest_s, kind="stable"):
        trial, partition = trials[index], partitions[index]
        here_s = load.seconds[:, trial, partition]
        home = np.lexsort((workers_s + here_s, np.maximum(workers_s, trials_s[trial]) + here_s))[0]
        given[trial, partition] = home
        workers_s[home] += here_s[home]
        trials_s[trial] += here_s[home]
    return given


def time_at_home(floor: Floor, homes: Indices) -> Floats:
    """What every unit takes at home; nothing without one."""
    if not len(floor.workers):
        return np.zeros(homes.shape)
    trials, partitions = np.indices(homes.shape)
    return np.where(homes >= 0, floor.unit_s[homes, trials, partitions], 0.0)
