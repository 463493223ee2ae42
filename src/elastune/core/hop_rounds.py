"""What a round of hopping needs: the workers, the data layout, the epoch for the schedulers, saved models.

Also decides which trials have time for an epoch, and whether few trials train as one gang of all workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastune.core import limits
from elastune.core.commands import Stow
from elastune.core.events import ModelStowed
from elastune.core.hop_state import worker_id
from elastune.core.state import PoolState, State, Step
from elastune.core.trials import Trial
from elastune.errors import InvariantError
from elastune.hopping.epoch import Epoch, Hops, HopWorker, PartitionId, Underway, Unit
from elastune.hopping.layout import WorkerPlace, lay_out_all, shares_of_all
from elastune.hopping.partitions import DataTerms, TrainingMode, choose_manner, measured_speedup, probes
from elastune.model.billing import bills_nodes
from elastune.model.ids import Gang, NodeId, Slot, TrialId


def epoch_of(state: State, pool_state: PoolState, trials: list[TrialId], *, evaluates: bool | None) -> Epoch:
    """The visits that are left. `evaluates` is None where epochs overlap: some trials train while others are
    evaluated, and each has only the visits of what it does now."""
    data = state.data
    phases = {trial: is_trained(state, trial) if evaluates is None else evaluates for trial in trials}
    kinds = (False, True) if evaluates is None else (evaluates,)
    partitions = tuple(number for kind in kinds for number in data.numbers(validation=kind))
    sizes = {number: size for kind in kinds for number, size in data.sizes(validation=kind).items()}
    pace = {trial: _visit_s(state, trial, evaluates=phases[trial]) for trial in trials}
    busy = _busy(state, pool_state, trials)
    workers = tuple(
        HopWorker(
            id=worker_id(slot),
            partitions=pool_state.hop_state.layout.get(worker_id(slot), frozenset()),
            unit_s={
                trial: _rounded(pace[trial] * state.paces[phases[trial]].node_factor(slot.node))
                for trial in trials
            },
            node=slot.node,
        )
        for slot in dict.fromkeys([*pool_state.hop_state.roster, *(each.gang[0] for each in busy)])
    )
    on_node = {slot.node: worker_id(slot) for slot in pool_state.hop_state.roster}
    progress = {trial: state.hop_progress[trial] for trial in trials}
    return Epoch(
        trials=tuple(trials),
        partitions=partitions,
        workers=workers,
        sizes=sizes,
        hops=Hops(
            seconds=dict.fromkeys(trials, state.terms.profile.transfer_s),
            at={trial: on_node[each.at] for trial, each in progress.items() if each.at in on_node},
            new=frozenset(
                trial for trial in trials if not (state.trials[trial].saved or progress[trial].seen)
            ),
        ),
        last_s={trial: _last_s(state, evaluates=phases[trial]) for trial in trials},
        later_s={trial: _later_s(state, trial) for trial in trials} if evaluates is None else {},
        done=frozenset(
            Unit(trial, partition)
            for trial, each in progress.items()
            for partition in partitions
            if partition in each.seen or data.is_validation(partition) is not phases[trial]
        ),
        underway=tuple(_underway(state, each, pace[each.number], sizes) for each in busy),
    )


def is_trained(state: State, trial: TrialId) -> bool:
    """Whether only evaluation is left of the trial's epoch."""
    data = state.data
    return bool(data.validation_rows) and len(state.hop_progress[trial].seen) >= data.partitions


def _visit_s(state: State, trial: TrialId, *, evaluates: bool) -> float:
    """Of a mean partition, with what comes with a visit, on a node of usual speed."""
    data, paces = state.data, state.paces[evaluates]
    partitions = data.numbers(validation=evaluates)
    parts = sum(data.part_of_iteration(partition) for partition in partitions)
    usual = state.terms.profile.iteration.mean * parts / len(partitions)
    return (paces.trial_s(trial, usual) or usual) + state.paces[0].beside_s(state.terms.profile.startup.mean)


def _later_s(state: State, trial: TrialId) -> float:
    """What the trial has to do after its present visits, up to the iteration for which it is wished."""
    data = state.data
    training_s = data.partitions * _visit_s(state, trial, evaluates=False)
    evaluation_s = 0.0
    if data.validation_rows:
        evaluation_s = len(data.validation_rows) * _visit_s(state, trial, evaluates=True)
    wish = state.wished.get(trial)
    epochs = 0 if wish is None else max(0, wish.until_iteration - state.trials[trial].iteration - 1)
    present_s = 0.0 if is_trained(state, trial) else evaluation_s
    return present_s + epochs * (training_s + evaluation_s)


def _last_s(state: State, *, evaluates: bool) -> float:
    """What the last visit of an iteration takes to save the model."""
    profile = state.terms.profile
    is_end = evaluates or not state.data.validation_rows
    return profile.save.mean + profile.transfer_s if is_end else 0.0


def _rounded(seconds: float) -> float:
    """Trials that differ in the last bits of their means are equal: schedules of equal trials are better."""
    return float(f"{seconds:.9g}")


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


def in_time(state: State, open_: list[Trial], workers: int, begun: Sequence[Trial] = ()) -> list[Trial]:
    """As many of the best trials as complete an epoch before the last call, beside those that have begun
    theirs; the others are too late."""
    call = limits.deadline_call_s(state)
    if call is None:
        return open_
    needs = [epoch_s(state, trial) for trial in open_]
    begun_s = sum(epoch_s(state, trial) for trial in begun)
    count = len(open_)
    left_s = (call - state.now_s) * (1 + limits.ROUNDING)
    while count and max(*needs[:count], (begun_s + sum(needs[:count])) / workers) > left_s:
        count -= 1
    for trial in open_[count:]:
        trial.late_after_s = call
    return open_[:count]


def epoch_s(state: State, trial: Trial) -> float:
    """Seconds of training left in this trial's iteration, on one worker after the other."""
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
    """The slots of the nodes that stay, oldest node first; of a plan that holds more nodes, those it uses."""
    size, nodes = state.terms.cluster.slots_per_node, pool_state.pool.nodes.values()
    staying = (node.number for node in nodes if node.ready_s is not None and not node.leaving)
    slots = tuple(Slot(node, number) for node in staying for number in range(size))
    return slots[: state.wishes.at_once.get(pool_state.pool.number)]


def lay_out_data(step: Step, pool_state: PoolState, workers: tuple[Slot, ...]) -> None:
    """Assign the partitions to the workers, unless they are as before."""
    data, hop_state, nodes = step.state.data, pool_state.hop_state, step.state.where
    before = hop_state.layout
    if workers == hop_state.roster and before:
        return
    places = [WorkerPlace(worker_id(slot), slot.node, nodes[slot.node].hosts) for slot in workers]
    layout = lay_out_all(places, data, before)
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


@dataclass(frozen=True, slots=True)
class GangOfAll:
    """The slots of a gang that trains one trial on all data, and the partitions of each member, in order."""

    gang: Gang
    shares: tuple[tuple[PartitionId, ...], ...]


def gang_of_all(
    state: State, pool_state: PoolState, workers: tuple[Slot, ...], trials: list[Trial]
) -> GangOfAll | None:
    """The gang of all workers, if so few trials train faster in turn on all of them; None: they hop."""
    data, layout = state.data, pool_state.hop_state.layout
    if not trials or len(workers) < 2:
        return None
    numbers = (data.numbers(validation=False), data.numbers(validation=True))
    known = {worker_id(slot): layout.get(worker_id(slot), frozenset()) for slot in workers}
    shares = shares_of_all(known, numbers, most=data.most_per_worker)
    gang = tuple(slot for slot in workers if worker_id(slot) in shares)
    if len(gang) < 2 or not _is_faster(state, gang, len(workers), trials):
        return None
    return GangOfAll(gang, tuple(shares[worker_id(slot)] for slot in gang))


def _is_faster(state: State, gang: Gang, workers: int, trials: list[Trial]) -> bool:
    """By what was measured in this run, else by the profile; else one epoch of the last trial measures it."""
    if state.wishes.together is not None:
        return state.wishes.together
    data, terms = state.data, state.terms
    speedup = state.gang_speeds.speedup(len(gang)) or measured_speedup(terms.profile.speedup, len(gang))
    if speedup is None:
        left = state.wished[trials[0].number].until_iteration - trials[0].iteration
        may = bills_nodes(terms.cluster)  # otherwise idle workers cost nothing, and a gang does
        return may and probes(len(trials), left, workers, data.partitions, most_slots=terms.gangs.max_slots)
    manner = choose_manner(
        len(trials),
        workers,
        data.partitions,
        speedup,
        replicas=data.replicas,
        most_slots=terms.gangs.max_slots,
    )
    return manner is TrainingMode.TOGETHER


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
