"""Whether the trials of an epoch hop, or train together: one model at a time, on all workers.

The planner and the running core ask the same functions, so that what was quoted is what happens. They are
about one epoch; a stage may change its manner as trials leave it. Times are in units of T, the time that
one trial takes for one epoch on one worker.

Hopping is an open shop (Cerebro section 5): an epoch takes as long as its longest trial or its busiest
worker, whichever is more, and trials that are alike have a schedule that takes no longer. Training together
is what Cerebro's appendix D advises for fewer trials than half the partitions; here the measured speed-up
decides, and that rule only where there is none.
"""

from __future__ import annotations

import enum

from elastune.errors import InvariantError
from elastune.profiles import Speedup


class Manner(enum.Enum):
    """How the trials of an epoch share the workers."""

    HOPPING = "hopping"
    """Every trial on one worker at a time, all at once."""
    TOGETHER = "together"
    """One trial after the other, each data-parallel on all workers."""


def useful_workers(workers: int, partitions: int, replicas: int = 1) -> int:
    """How many of the workers can hold data: one for each copy of a partition at most."""
    if min(workers, partitions, replicas) < 1:
        raise InvariantError(f"no epoch has {workers} workers, {partitions} partitions x {replicas} replicas")
    return min(workers, partitions * replicas)


def busiest_part(trials: int, workers: int, partitions: int, replicas: int = 1) -> float:
    """The part of all units of an epoch that the busiest worker has to do.

    The fullest of w workers holds ceil(p r / w) of the p r copies. Without replicas every trial comes to each
    of them. With replicas the holders of a partition can share its n units evenly, up to whole units; often
    they can do better by passing work along, but that depends on who holds what, so it is not promised.
    """
    copies = min(replicas, workers)
    fullest = -(-partitions * copies // useful_workers(workers, partitions, copies))
    return -(-trials * fullest // copies) / (trials * partitions)


def hopping_share(trials: int, workers: int, partitions: int, replicas: int = 1) -> float:
    """What an epoch of so many trials that are alike takes when they hop, in units of T."""
    return max(1.0, trials * busiest_part(trials, workers, partitions, replicas))


def together_share(trials: int, workers: int, speedup: Speedup) -> float:
    """What an epoch takes when each of the trials in turn has all the workers, in units of T."""
    return trials / speedup.at(workers)


def measured_speedup(speedup: Speedup, workers: int) -> float | None:
    """The speed-up on all workers, as `choose_manner` wants it: None if one slot is all that was measured."""
    return speedup.at(workers) if speedup.largest > 1 else None


def choose_manner(
    trials: int,
    workers: int,
    partitions: int,
    speedup_at: float | None,
    *,
    replicas: int = 1,
    most_slots: int | None = None,
) -> Manner:
    """How so many trials train for one epoch.

    `speedup_at` is the speed-up of one trial on all `workers`; None if nothing was measured beyond one
    slot. A trial that may not have as many slots (`most_slots`) cannot train on all of them. Nor can one
    whose workers have unequal data, or some of it twice: they would wait for each other in vain.
    """
    unequal = replicas > 1 or partitions % workers > 0
    if workers == 1 or unequal or (most_slots is not None and most_slots < workers):
        return Manner.HOPPING
    if speedup_at is None:
        few = trials < min(workers, partitions) / 2
    else:
        few = trials / speedup_at < hopping_share(trials, workers, partitions, replicas)
    return Manner.TOGETHER if few else Manner.HOPPING
