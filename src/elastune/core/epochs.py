"""A round of hopping as a problem for the schedulers, from what the state knows; and what it takes."""

from __future__ import annotations

from elastune.core import guards
from elastune.core.state import Pools, State
from elastune.core.tours import worker_id
from elastune.core.trials import Trial
from elastune.errors import InvariantError
from elastune.hopper import Epoch, Hops, PartitionId, Underway, Unit, Worker
from elastune.place import TrialId


def epoch_of(state: State, room: Pools, trials: list[TrialId], *, evaluates: bool) -> Epoch:
    data, paces = state.data, state.paces[evaluates]
    partitions = data.numbers(validation=evaluates)
    usual = state.terms.profile.iteration.mean / data.partitions
    pace = {trial: paces.trial_s(trial, usual) or usual for trial in trials}
    busy = _busy(state, room, trials)
    workers = tuple(
        Worker(
            id=worker_id(slot),
            partitions=room.hall.layout.get(worker_id(slot), frozenset()),
            unit_s={trial: pace[trial] * paces.node_factor(slot.node) for trial in trials},
        )
        for slot in dict.fromkeys([*room.hall.roster, *(each.gang[0] for each in busy)])
    )
    known = {slot.node: worker_id(slot) for slot in room.hall.roster}
    at = {trial: state.tours[trial].at for trial in trials}
    wanted = frozenset(partitions)
    sizes = data.sizes(validation=evaluates)
    return Epoch(
        trials=tuple(trials),
        partitions=partitions,
        workers=workers,
        sizes=sizes,
        hops=Hops(
            seconds=dict.fromkeys(trials, state.terms.profile.transfer_s),
            at={trial: known[node] for trial, node in at.items() if node in known},
        ),
        done=frozenset(
            Unit(trial, partition)
            for trial in trials
            for partition in state.tours[trial].seen
            if partition in wanted
        ),
        underway=tuple(_underway(state, each, pace[each.number], sizes) for each in busy),
    )


def _busy(state: State, room: Pools, trials: list[TrialId]) -> list[Trial]:
    held = (state.trials[number] for number in trials if number in state.held)
    return [trial for trial in held if trial.visit is not None and trial.pool == room.pool.number]


def _underway(state: State, trial: Trial, pace_s: float, sizes: dict[PartitionId, float]) -> Underway:
    if trial.visit is None:
        raise InvariantError(f"trial {trial.number} is not on a visit")
    partition = PartitionId(trial.visit.partition)
    left_s = pace_s * sizes[partition] - (state.now_s - trial.since_s)
    return Underway(
        unit=Unit(trial.number, partition), worker=worker_id(trial.gang[0]), left_s=max(0.0, left_s)
    )


def in_time(state: State, open_: list[Trial], workers: int) -> list[Trial]:
    """So many of the best as get through an epoch before the last call; the others are too late."""
    call = guards.deadline_call_s(state)
    if call is None:
        return open_
    needs = [_epoch_s(state, trial) for trial in open_]
    count = len(open_)
    left_s = (call - state.now_s) * (1 + guards.ROUNDING)
    while count and max(*needs[:count], sum(needs[:count]) / workers) > left_s:
        count -= 1
    for trial in open_[count:]:
        trial.late_after_s = call
    return open_[:count]


def _epoch_s(state: State, trial: Trial) -> float:
    """What is left of this trial's iteration."""
    data, believed = state.data, state.terms.profile.iteration.mean
    tour = state.tours.get(trial.number)
    seen = set(tour.seen) if tour is not None and tour.iteration == trial.iteration + 1 else set()
    total = 0.0
    for evaluates in (False, True):
        paces = state.paces[evaluates]
        for partition, size in data.sizes(validation=evaluates).items():
            if partition not in seen:
                usual = believed * data.part_of_iteration(partition) / size
                total += size * paces.trial_s(trial.number, usual)
    return total
