"""What a round of hopping needs: the workers, the data layout, the epoch for the schedulers, saved models.

Also decides which trials have time for an epoch, and whether few trials train as one gang of all workers.
"""

from __future__ import annotations

from elastune.core import limits
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
    on_node = {slot.node: worker_id(slot) for slot in pool_state.hop_state.roster}
    progress, wanted = {trial: state.hop_progress[trial] for trial in trials}, frozenset(partitions)
    sizes = data.sizes(validation=evaluates)
    return Epoch(
        trials=tuple(trials),
        partitions=partitions,
        workers=workers,
        sizes=sizes,
        hops=Hops(
            seconds=dict.fromkeys(trials, state.terms.profile.transfer_s),
            at={trial: on_node[each.at] for trial, each in progress.items() if each.at in on_node},
        ),
        done=frozenset(
            Unit(trial, partition)
            for trial, each in progress.items()
            for partition in each.seen
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
    unit = Unit(trial.number, partition)
    return Underway(unit=unit, worker=worker_id(trial.gang[0]), left_s=max(0.0, left_s))


def in_time(state: State, open_: list[Trial], workers: int) -> list[Trial]:
    """As many of the best trials as complete an epoch before the last call; the others are too late."""
    call = limits.deadline_call_s(state)
    if call is None:
        return open_
    needs = [_epoch_s(state, trial) for trial in open_]
    count = len(open_)
    left_s = (call - state.now_s) * (1 + limits.ROUNDING)
    while count and max(*needs[:count], sum(needs[:count]) / workers) > left_s:
        count -= 1
    for trial in open_[count:]:
        trial.late_after_s = call
    return open_[:count]


def _epoch_s(state: State, trial: Trial) -> float:
    """Seconds of training left in this trial's iteration."""
    data, expected_s = state.data, state.terms.profile.iteration.mean
    progress = state.hop_progress.get(trial.number)
    seen = set(progress.seen) if progress is not None and progress.iteration == trial.iteration + 1 else set()
    total = 0.0
    for evaluates in (False, True):
        for partition, size in data.sizes(validation=evaluates).items():
            if partition not in seen:
                usual = expected_s * data.part_of_iteration(partition) / size
                total += size * state.paces[evaluates].trial_s(trial.number, usual)
    return total


def workers_of(state: State, pool_state: PoolState) -> tuple[Slot, ...]:
    """All slots of the nodes that stay, oldest node first."""
    size, nodes = state.terms.cluster.slots_per_node, pool_state.pool.nodes.values()
    staying = (node.number for node in nodes if node.ready_s is not None and not node.leaving)
    return tuple(Slot(node, number) for node in staying for number in range(size))


def lay_out_data(step: Step, pool_state: PoolState, workers: tuple[Slot, ...]) -> None:
    """Assign the partitions to the workers, unless they are as before."""
    data, hop_state, nodes = step.state.data, pool_state.hop_state, step.state.where
    before = hop_state.layout
    if workers == hop_state.roster and before:
        return
    places = [WorkerPlace(worker_id(slot), slot.node, nodes[slot.node].hosts) for slot in workers]
    layout = {place.worker: frozenset[PartitionId]() for place in places}
    for validation in (False, True):
        sizes, most = data.sizes(validation=validation), None if validation else data.most_per_worker
        part = lay_out(
            places, sizes, replicas=data.replicas, before=before, hosts=dict(data.hosts), most=most
        )
        layout = {worker: layout[worker] | held for worker, held in part.items()}
    moved = sum(len(held - before.get(worker, frozenset())) for worker, held in layout.items())
    if before and moved:
        step.note("data", f"{len(workers)} workers now: {moved} partitions are loaded where they were not")
    hop_state.layout, hop_state.roster = layout, workers
    if workers and pool_state.pool.is_complete:
        held = frozenset[PartitionId]().union(*layout.values())
        wanted = (*data.numbers(validation=False), *data.numbers(validation=True))
        missing = next((number for number in wanted if number not in held), None)
        if missing is not None:
            step.state.unreachable = _describe_missing(data, missing, len(workers))


def _describe_missing(data: DataTerms, partition: int, workers: int) -> str:
    if workers < data.least_workers:
        return f"the data need {data.least_workers} workers to hold them, and there are {workers}"
    hosts = ", ".join(sorted(dict(data.hosts).get(partition, frozenset())))
    where = f"; data.hosts has it on {hosts}" if hosts else ""
    return f"partition {partition} is on none of the machines that are there{where}"


def gang_of_all(state: State, pool_state: PoolState, workers: tuple[Slot, ...], trials: int) -> Gang | None:
    """The gang of all workers, if so few trials train faster in turn on all of them; None: they hop."""
    data, terms = state.data, state.terms
    held = [pool_state.hop_state.layout.get(worker_id(slot), frozenset()) for slot in workers]
    if not workers or not all(held):
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
    # All members must take equally many steps, because they sum their gradients in each.
    shapes = {(len(each), sum(number < data.partitions for number in each)) for each in held}
    # A worker that would be idle holds a copy; in a gang the rows of that partition would count twice.
    copies = sum(map(len, held)) - len(frozenset[PartitionId]().union(*held))
    even = data.replicas == 1 and len(shapes) == 1 and not copies
    return workers if is_faster and even and len(workers) > 1 else None


def save_models(step: Step, node: NodeId | None = None) -> None:
    """Order a save of the idle models in the middle of an iteration; those on one node, or all."""
    for number, progress in step.state.hop_progress.items():
        if progress.at is None or node not in (None, progress.at) or number in step.state.held:
            continue
        trial, visits = step.state.trials[number], len(progress.seen)
        if visits > progress.safe and progress.saving is None and not trial.phase.is_over:
            generation = progress.saving = trial.generation
            step.emit(Stow(trial=number, generation=generation, iteration=progress.iteration, visits=visits))


def model_saved(step: Step, event: ModelStowed) -> None:
    progress = step.state.hop_progress.get(event.trial)
    if progress is None or (progress.iteration, progress.saving) != (event.iteration, event.generation):
        return
    progress.saving = None
    if event.error is not None:
        step.note("stow", f"the model of trial {event.trial} could not be saved: {event.error}")
    elif progress.safe < event.visits <= len(progress.seen):
        progress.safe = event.visits
