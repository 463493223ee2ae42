"""A round of hopping as a problem for the schedulers, from what the state knows; and what it takes.

Where models hop: the workers of a pool, the data that each holds, and whether they train as one gang.

Models that hop and lie at rest on a node: made durable before it goes, or lost with it.
"""

from __future__ import annotations

from elastune.core import limits as guards
from elastune.core.commands import Stow
from elastune.core.events import ModelStowed
from elastune.core.hop_state import worker_id
from elastune.core.state import PoolState, State, Step
from elastune.core.trials import Trial
from elastune.errors import InvariantError
from elastune.hopping.epoch import Epoch, Hops, HopWorker, PartitionId, Underway, Unit
from elastune.hopping.layout import WorkerPlace, lay_out
from elastune.hopping.partitions import DataTerms, TrainingMode, choose_manner, measured_speedup
from elastune.model.ids import Gang, NodeId, Slot, TrialId


def epoch_of(state: State, pool_state: PoolState, trials: list[TrialId], *, evaluates: bool) -> Epoch:
    data, paces = state.data, state.paces[evaluates]
    partitions = data.numbers(validation=evaluates)
    usual = state.terms.profile.iteration.mean / data.partitions
    pace = {trial: paces.trial_s(trial, usual) or usual for trial in trials}
    busy = _busy(state, pool_state, trials)
    workers = tuple(
        HopWorker(
            id=worker_id(slot),
            partitions=pool_state.hop_state.layout.get(worker_id(slot), frozenset()),
            unit_s={trial: pace[trial] * paces.node_factor(slot.node) for trial in trials},
        )
        for slot in dict.fromkeys([*pool_state.hop_state.roster, *(each.gang[0] for each in busy)])
    )
    known = {slot.node: worker_id(slot) for slot in pool_state.hop_state.roster}
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


def _busy(state: State, pool_state: PoolState, trials: list[TrialId]) -> list[Trial]:
    held = (state.trials[number] for number in trials if number in state.held)
    return [trial for trial in held if trial.visit is not None and trial.pool == pool_state.pool.number]


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


def workers_of(state: State, pool_state: PoolState) -> tuple[Slot, ...]:
    """Every slot of the nodes that stay, oldest node first."""
    nodes = (
        node.number
        for node in pool_state.pool.nodes.values()
        if node.ready_s is not None and not node.leaving
    )
    return tuple(Slot(node, n) for node in nodes for n in range(state.terms.cluster.slots_per_node))


def lay_out_data(step: Step, pool_state: PoolState, workers: tuple[Slot, ...]) -> None:
    data, hop_state = step.state.data, pool_state.hop_state
    if workers == hop_state.roster and hop_state.layout:
        return
    nodes = step.state.where
    places = [WorkerPlace(worker_id(slot), slot.node, nodes[slot.node].hosts) for slot in workers]
    before = hop_state.layout
    layout = {place.worker: frozenset[PartitionId]() for place in places}
    for validation in (False, True):
        sizes = data.sizes(validation=validation)
        most = None if validation else data.most_per_worker
        some = lay_out(
            places, sizes, replicas=data.replicas, before=before, hosts=dict(data.hosts), most=most
        )
        layout = {worker: layout[worker] | held for worker, held in some.items()}
    moved = sum(len(held - before.get(worker, frozenset())) for worker, held in layout.items())
    if before and moved:
        step.note("data", f"{len(workers)} workers now: {moved} partitions are loaded where they were not")
    hop_state.layout, hop_state.roster = layout, workers
    held = frozenset[PartitionId]().union(*layout.values())
    missing = [
        n for validation in (False, True) for n in data.numbers(validation=validation) if n not in held
    ]
    is_whole = not pool_state.pool.outstanding and pool_state.pool.ready == pool_state.pool.staying
    if missing and workers and is_whole:
        few, hosts = len(workers) < data.least_workers, _wanted_hosts(data, missing[0])
        step.state.unreachable = (
            f"the data need {data.least_workers} workers to hold them, and there are {len(workers)}"
            if few
            else f"partition {missing[0]} is on none of the machines that are there{hosts}"
        )


def _wanted_hosts(data: DataTerms, partition: int) -> str:
    hosts = dict(data.hosts).get(partition, frozenset())
    return f"; data.hosts has it on {', '.join(sorted(hosts))}" if hosts else ""


def gang_of_all(state: State, pool_state: PoolState, workers: tuple[Slot, ...], trials: int) -> Gang | None:
    """The gang of all workers, if that is how so few trials train best; None: they hop."""
    data, terms = state.data, state.terms
    if not workers or any(len(pool_state.hop_state.layout.get(worker_id(slot), ())) == 0 for slot in workers):
        return None
    manner = choose_manner(
        trials,
        len(workers),
        data.partitions,
        measured_speedup(terms.profile.speedup, len(workers)),
        replicas=data.replicas,
        most_slots=terms.gangs.max_slots,
    )
    is_faster = manner is TrainingMode.TOGETHER if state.wishes.together is None else state.wishes.together
    held = [pool_state.hop_state.layout[worker_id(slot)] for slot in workers]
    # All have to take as many steps: they add up their gradients in each.
    shapes = {(len(each), sum(number < data.partitions for number in each)) for each in held}
    even = data.replicas == 1 and len(shapes) == 1
    return workers if is_faster and even and len(workers) > 1 else None


def stow(step: Step, node: NodeId | None = None) -> None:
    """Models at rest amid an iteration are made durable; those on one node, or all."""
    for number, tour in step.state.tours.items():
        if tour.at is None or node not in (None, tour.at) or number in step.state.held:
            continue
        trial = step.state.trials[number]
        if len(tour.seen) > tour.safe and tour.stowing is None and not trial.phase.is_over:
            tour.stowing = trial.generation
            step.tell(
                Stow(
                    trial=number,
                    generation=trial.generation,
                    iteration=tour.iteration,
                    visits=len(tour.seen),
                )
            )


def stowed(step: Step, event: ModelStowed) -> None:
    tour = step.state.tours.get(event.trial)
    if tour is None or tour.iteration != event.iteration or tour.stowing != event.generation:
        return
    tour.stowing = None
    if event.error is None and tour.safe < event.visits <= len(tour.seen):
        tour.safe = event.visits
    elif event.error is not None:
        step.note("stow", f"the model of trial {event.trial} could not be saved: {event.error}")


def lose_model(state: State, trial: Trial) -> None:
    """Whatever was not durable of it is done again."""
    tour = state.tours.get(trial.number)
    if tour is not None:
        tour.at = None
