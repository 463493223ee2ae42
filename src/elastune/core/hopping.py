"""From wishes to visits: the second way to execute trials (Cerebro's model hopping).

The data stay where they are and the models hop. An iteration is an epoch: the trial visits every partition
once, each visit on a worker that holds it. Trials train in *rounds*: all that are wished for take part in an
epoch, and the next one begins when the last of them is through; so policies see one row per trial and epoch,
as everywhere. How many slots a policy wishes for a trial is not looked at.

With few trials left, one after the other trains on all workers at once where that is faster (`Manner`): a
gang as in the other execution, each member on the partitions that it holds anyway.
"""

from __future__ import annotations

from elastune.core import gangs, guards
from elastune.core.commands import Stow, Visit
from elastune.core.events import ModelStowed, VisitEnded
from elastune.core.experience import Spell
from elastune.core.state import Pools, State
from elastune.core.tours import Round, Tour, worker_id
from elastune.core.trials import Trial
from elastune.core.turn import Turn
from elastune.core.wishes import Wish
from elastune.errors import InvariantError
from elastune.hopper import (
    Epoch,
    Floor,
    Hops,
    Manner,
    PartitionId,
    Scheduler,
    Underway,
    Unit,
    UnitEnded,
    UnitStarted,
    Worker,
    choose_manner,
    make_scheduler,
    measured_speedup,
)
from elastune.hopper.layout import Place, lay_out
from elastune.hopper.terms import DataTerms
from elastune.place import Gang, NodeId, Slot, TrialId


def fill(turn: Turn, room: Pools) -> None:
    """Let free workers begin what is best begun now."""
    while True:
        _look_around(turn, room)
        if room.hall.round is None and not _begin(turn, room):
            return
        _dispatch(turn, room)
        if room.hall.round is None or not room.hall.round.floor.is_over:
            return
        _end_round(turn, room)


def settle(turn: Turn, trial: Trial) -> None:
    """A visit is never cut short, unless its trial is out."""
    wish = turn.state.wished.get(trial.number)
    if wish is None or turn.state.closing or turn.state.resting or trial.phase.is_over:
        gangs.stop(turn, trial)


def leave_out(turn: Turn) -> None:
    """New wishes: who is not among them takes no further part in its round."""
    state = turn.state
    for room in state.rooms.values():
        now = room.hall.round
        if now is None:
            continue
        for number in tuple(now.open):
            wish, trial = state.wished.get(number), state.trials[number]
            if wish is None or wish.pool != room.pool.number or not is_open(state, trial, wish):
                if state.trials[number].activity is not None:
                    gangs.stop(turn, state.trials[number])
                now.drop(number, state.now_s)


def is_in_place(state: State, trial: Trial) -> bool:
    """Whether a trial that has all workers may keep them."""
    room = state.room(trial.pool)
    open_ = [t for t in _open_trials(state, room) if t.number != trial.number]
    workers = _workers(state, room)
    return set(trial.gang) == set(_together(state, room, workers, len(open_) + 1) or ())


def visited(turn: Turn, trial: Trial, event: VisitEnded) -> None:
    """A visit came to its end in good order."""
    state, visit, slot = turn.state, trial.visit, trial.gang[0]
    if visit is None:
        raise InvariantError(f"trial {trial.number} ended a visit that it was not on")
    room = state.room(trial.pool)
    data, tour = _data(state), state.tours[trial.number]
    if visit.partition in tour.seen or visit.done != len(tour.seen):
        raise InvariantError(f"trial {trial.number} was on {visit}, but has seen {tour.seen}")
    tour.seen.append(PartitionId(visit.partition))
    tour.at = slot.node
    if event.kept:
        tour.safe = len(tour.seen)
    state.paces[visit.evaluates].add(trial.number, slot.node, event.seconds, data.size(visit.partition))
    state.experience.trained(Spell(1, data.part_of_iteration(visit.partition), event.seconds))
    now = room.hall.round
    if now is not None:
        now.floor.handle(UnitEnded(at_s=state.now_s, worker=worker_id(slot)))
    if visit.is_last:
        if len(event.rows) != 1:
            raise InvariantError(f"trial {trial.number} saw all partitions and has {len(event.rows)} rows")
        del state.tours[trial.number]
        if now is not None:
            now.open.pop(trial.number, None)
    trial.visit = None
    gangs.dissolve(turn, trial)
    if now is not None and trial.phase.is_over:
        now.drop(trial.number, state.now_s)
    if now is not None and now.floor.is_over:
        _end_round(turn, room)


def come_back(state: State) -> None:
    """The driver was down: models are only in the store, and no worker holds data any more."""
    for tour in state.tours.values():
        tour.at = None
        tour.fall_back()
    for room in state.rooms.values():
        room.hall.round, room.hall.layout, room.hall.roster = None, {}, ()


def model_lost(state: State, trial: Trial) -> None:
    """Whatever was not durable of it is done again."""
    tour = state.tours.get(trial.number)
    if tour is not None:
        tour.at = None


def stow(turn: Turn, node: NodeId | None = None) -> None:
    """Models at rest amid an iteration are made durable; those on one node, or all."""
    for number, tour in turn.state.tours.items():
        if tour.at is None or node not in (None, tour.at) or number in turn.state.held:
            continue
        trial = turn.state.trials[number]
        if len(tour.seen) > tour.safe and tour.stowing is None and not trial.phase.is_over:
            tour.stowing = trial.generation
            turn.tell(
                Stow(
                    trial=number,
                    generation=trial.generation,
                    iteration=tour.iteration,
                    visits=len(tour.seen),
                )
            )


def stowed(turn: Turn, event: ModelStowed) -> None:
    tour = turn.state.tours.get(event.trial)
    if tour is None or tour.iteration != event.iteration or tour.stowing != event.generation:
        return
    tour.stowing = None
    if event.error is None and tour.safe < event.visits <= len(tour.seen):
        tour.safe = event.visits
    elif event.error is not None:
        turn.note("stow", f"the model of trial {event.trial} could not be saved: {event.error}")


def end_rounds(state: State) -> None:
    """The run winds up or rests: nothing new is begun."""
    for room in state.rooms.values():
        room.hall.round = None


# Rounds.


def _begin(turn: Turn, room: Pools) -> bool:
    """A new round of all that are wished for; False: there is nothing that hops now."""
    state = turn.state
    open_ = _open_trials(state, room)
    if not open_ or room.gangs:
        return False
    if not room.hall.layout and (room.pool.outstanding or room.pool.ready < room.pool.staying):
        return False  # the others come soon, and their part of the data would be loaded twice
    workers = _workers(state, room)
    if not workers:
        return False
    _lay_out(turn, room, workers)
    gang = _together(state, room, workers, len(open_))
    if gang is not None and not any(_is_amid(state, trial) for trial in open_):
        wish = state.wished[open_[0].number]
        shares = tuple(tuple(sorted(room.hall.layout[worker_id(slot)])) for slot in gang)
        gangs.start(turn, open_[0], gang, wish, shares=shares)
        return False
    part = _in_time(state, open_, len(workers))
    for trial in part:
        tour = state.tours.get(trial.number)
        if tour is None or tour.iteration != trial.iteration + 1:
            state.tours[trial.number] = Tour(trial.iteration + 1)
    if part:
        room.hall.rounds += 1
        _open_round(state, room, [trial.number for trial in part], evaluates=False)
    return bool(part)


def _is_amid(state: State, trial: Trial) -> bool:
    """Whether it has done a part of its next iteration, which hops to its end."""
    tour = state.tours.get(trial.number)
    return tour is not None and tour.iteration == trial.iteration + 1 and bool(tour.seen)


def _end_round(turn: Turn, room: Pools) -> None:
    """After training comes the evaluation, where there are data for it."""
    state, now, data = turn.state, room.hall.round, _data(turn.state)
    room.hall.round = None
    if now is None or now.evaluates or not data.validation_rows:
        return
    trained = [number for number in now.open if len(state.tours[number].seen) >= data.partitions]
    if trained:
        _open_round(state, room, trained, evaluates=True)


def _open_round(state: State, room: Pools, trials: list[TrialId], *, evaluates: bool) -> None:
    epoch = _epoch(state, room, trials, evaluates=evaluates)
    room.hall.round = Round(
        epoch=epoch,
        floor=Floor(epoch, now_s=state.now_s),
        scheduler=_scheduler(state, room),
        open=dict.fromkeys(trials),
        evaluates=evaluates,
        began_s=state.now_s,
    )


def _scheduler(state: State, room: Pools) -> Scheduler:
    return make_scheduler(_data(state).scheduler, seed=room.hall.rounds, hasty=True)


def _dispatch(turn: Turn, room: Pools) -> None:
    state, now, data = turn.state, room.hall.round, _data(turn.state)
    if now is None:
        return
    slots = {worker_id(slot): slot for slot in room.hall.roster}
    begun = now.scheduler.dispatch(now.floor)
    for assignment in begun:
        now.floor.handle(UnitStarted(at_s=state.now_s, unit=assignment.unit, worker=assignment.worker))
    for assignment in begun:
        unit, worker = assignment.unit, assignment.worker
        trial = state.trials[unit.trial]
        visit = Visit(unit.partition, len(state.tours[unit.trial].seen), data.visits, now.evaluates)
        share = tuple(sorted(room.hall.layout[worker]))
        gangs.start(
            turn,
            trial,
            (slots[worker],),
            state.wished[unit.trial],
            shares=(share,),
            visit=visit,
            then=now.next_on(worker),
        )


def _look_around(turn: Turn, room: Pools) -> None:
    """Workers came or went, or a model was lost with its node: the rest of the round is planned anew."""
    state, now = turn.state, room.hall.round
    if not room.hall.stale:
        return
    room.hall.stale = False
    if now is None:
        return
    _lay_out(turn, room, _workers(state, room))
    trials = [number for number in now.open if number in state.tours]
    now.epoch = _epoch(state, room, trials, evaluates=now.evaluates)
    now.floor = Floor(now.epoch, now_s=state.now_s)
    now.scheduler = _scheduler(state, room)


def _epoch(state: State, room: Pools, trials: list[TrialId], *, evaluates: bool) -> Epoch:
    data, paces = _data(state), state.paces[evaluates]
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


# Workers and trials.


def _workers(state: State, room: Pools) -> tuple[Slot, ...]:
    """Every slot of the nodes that stay, oldest node first."""
    nodes = (
        node.number for node in room.pool.nodes.values() if node.ready_s is not None and not node.leaving
    )
    return tuple(Slot(node, n) for node in nodes for n in range(state.terms.cluster.slots_per_node))


def _lay_out(turn: Turn, room: Pools, workers: tuple[Slot, ...]) -> None:
    data, hall = _data(turn.state), room.hall
    if workers == hall.roster and hall.layout:
        return
    nodes = turn.state.where
    places = [Place(worker_id(slot), slot.node, nodes[slot.node].hosts) for slot in workers]
    before = hall.layout
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
        turn.note("data", f"{len(workers)} workers now: {moved} partitions are loaded where they were not")
    hall.layout, hall.roster = layout, workers
    held = frozenset[PartitionId]().union(*layout.values())
    missing = [
        n for validation in (False, True) for n in data.numbers(validation=validation) if n not in held
    ]
    is_whole = not room.pool.outstanding and room.pool.ready == room.pool.staying
    if missing and workers and is_whole:
        few, hosts = len(workers) < data.least_workers, _wanted_hosts(data, missing[0])
        turn.state.unreachable = (
            f"the data need {data.least_workers} workers to hold them, and there are {len(workers)}"
            if few
            else f"partition {missing[0]} is on none of the machines that are there{hosts}"
        )


def _wanted_hosts(data: DataTerms, partition: int) -> str:
    hosts = dict(data.hosts).get(partition, frozenset())
    return f"; data.hosts has it on {', '.join(sorted(hosts))}" if hosts else ""


def _together(state: State, room: Pools, workers: tuple[Slot, ...], trials: int) -> Gang | None:
    """The gang of all workers, if that is how so few trials train best; None: they hop."""
    data, terms = _data(state), state.terms
    if not workers or any(len(room.hall.layout.get(worker_id(slot), ())) == 0 for slot in workers):
        return None
    manner = choose_manner(
        trials,
        len(workers),
        data.partitions,
        measured_speedup(terms.profile.speedup, len(workers)),
        replicas=data.replicas,
        most_slots=terms.gangs.max_slots,
    )
    is_faster = manner is Manner.TOGETHER if state.wishes.together is None else state.wishes.together
    held = [room.hall.layout[worker_id(slot)] for slot in workers]
    # All have to take as many steps: they add up their gradients in each.
    shapes = {(len(each), sum(number < data.partitions for number in each)) for each in held}
    even = data.replicas == 1 and len(shapes) == 1
    return workers if is_faster and even and len(workers) > 1 else None


def _open_trials(state: State, room: Pools) -> list[Trial]:
    """Those that wait to be trained, best first."""
    return [
        state.trials[wish.trial]
        for wish in state.wishes.trials
        if wish.pool == room.pool.number
        and state.trials[wish.trial].activity is None
        and is_open(state, state.trials[wish.trial], wish)
    ]


def is_open(state: State, trial: Trial, wish: Wish) -> bool:
    """Whether there is something left to train for, and time."""
    if trial.phase.is_over or trial.has_done(wish.until_iteration):
        return False
    if trial.late_after_s is None:
        return True
    call = guards.deadline_call_s(state)
    return call is None or call > trial.late_after_s + guards.ROUNDING


def _in_time(state: State, open_: list[Trial], workers: int) -> list[Trial]:
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
    data, believed = _data(state), state.terms.profile.iteration.mean
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


def _data(state: State) -> DataTerms:
    if state.terms.data is None:
        raise InvariantError("only a job with partitioned data hops")
    return state.terms.data
