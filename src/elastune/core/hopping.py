"""From wishes to visits: the second way to execute trials (Cerebro's model hopping).

The data stay where they are and the models hop. An iteration is an epoch: the trial visits every partition
once, each visit on a worker that holds it. Trials train in *rounds*: all that are wished for take part in an
epoch, and the next one begins when the last of them is through; so policies see one row per trial and epoch,
as everywhere. How many slots a policy wishes for a trial is not looked at.

With few trials left, one after the other trains on all workers at once where that is faster (`Manner`): a
gang as in the other execution, each member on the partitions that it holds anyway.
"""

from __future__ import annotations

from elastune.core import gangs
from elastune.core import limits as guards
from elastune.core.commands import Visit
from elastune.core.events import VisitEnded
from elastune.core.hop_rounds import epoch_of, gang_of_all, in_time, lay_out_data, workers_of
from elastune.core.hop_state import HopProgress, HopRound, worker_id
from elastune.core.observed_speed import TrainingSpell
from elastune.core.state import PoolState, State, Step
from elastune.core.trials import Trial
from elastune.errors import InvariantError
from elastune.hopping.epoch import PartitionId, UnitEnded, UnitStarted
from elastune.hopping.epoch_state import EpochState, Scheduler
from elastune.hopping.schedulers import make_scheduler
from elastune.model.ids import TrialId


def fill_hops(turn: Step, room: PoolState) -> None:
    """Let free workers begin what is best begun now."""
    while True:
        _look_around(turn, room)
        if room.hall.round is None and not _begin(turn, room):
            return
        _dispatch(turn, room)
        if room.hall.round is None or not room.hall.round.floor.is_over:
            return
        _end_round(turn, room)


def settle_hops(turn: Step, trial: Trial) -> None:
    """A visit is never cut short, unless its trial is out."""
    wish = turn.state.wished.get(trial.number)
    if wish is None or turn.state.closing or turn.state.resting or trial.phase.is_over:
        gangs.stop(turn, trial)


def leave_out(turn: Step) -> None:
    """New wishes: who is not among them takes no further part in its round."""
    state = turn.state
    for room in state.rooms.values():
        now = room.hall.round
        if now is None:
            continue
        for number in tuple(now.open):
            wish, trial = state.wished.get(number), state.trials[number]
            if wish is None or wish.pool != room.pool.number or not guards.is_open(state, trial, wish):
                if state.trials[number].activity is not None:
                    gangs.stop(turn, state.trials[number])
                now.drop(number, state.now_s)


def is_in_place(state: State, trial: Trial) -> bool:
    """Whether a trial that has all workers may keep them."""
    room = state.room(trial.pool)
    open_ = [t for t in _open_trials(state, room) if t.number != trial.number]
    workers = workers_of(state, room)
    return set(trial.gang) == set(gang_of_all(state, room, workers, len(open_) + 1) or ())


def visited(turn: Step, trial: Trial, event: VisitEnded) -> None:
    """A visit came to its end in good order."""
    state, visit, slot = turn.state, trial.visit, trial.gang[0]
    if visit is None:
        raise InvariantError(f"trial {trial.number} ended a visit that it was not on")
    room = state.room(trial.pool)
    data, tour = state.data, state.tours[trial.number]
    if visit.partition in tour.seen or visit.done != len(tour.seen):
        raise InvariantError(f"trial {trial.number} was on {visit}, but has seen {tour.seen}")
    tour.seen.append(PartitionId(visit.partition))
    tour.at = slot.node
    if event.kept:
        tour.safe = len(tour.seen)
    state.paces[visit.evaluates].add(trial.number, slot.node, event.seconds, data.size(visit.partition))
    state.experience.trained(TrainingSpell(1, data.part_of_iteration(visit.partition), event.seconds))
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


def end_rounds(state: State) -> None:
    """The run winds up or rests: nothing new is begun."""
    for room in state.rooms.values():
        room.hall.round = None


# Rounds.


def _begin(turn: Step, room: PoolState) -> bool:
    """A new round of all that are wished for; False: there is nothing that hops now."""
    state = turn.state
    open_ = _open_trials(state, room)
    if not open_ or room.gangs:
        return False
    if not room.hall.layout and (room.pool.outstanding or room.pool.ready < room.pool.staying):
        return False  # the others come soon, and their part of the data would be loaded twice
    workers = workers_of(state, room)
    if not workers:
        return False
    lay_out_data(turn, room, workers)
    gang = gang_of_all(state, room, workers, len(open_))
    if gang is not None and not any(_is_amid(state, trial) for trial in open_):
        wish = state.wished[open_[0].number]
        shares = tuple(tuple(sorted(room.hall.layout[worker_id(slot)])) for slot in gang)
        gangs.start(turn, open_[0], gang, wish, shares=shares)
        return False
    part = in_time(state, open_, len(workers))
    for trial in part:
        tour = state.tours.get(trial.number)
        if tour is None or tour.iteration != trial.iteration + 1:
            state.tours[trial.number] = HopProgress(trial.iteration + 1)
    if part:
        room.hall.rounds += 1
        _open_round(state, room, [trial.number for trial in part], evaluates=False)
    return bool(part)


def _is_amid(state: State, trial: Trial) -> bool:
    """Whether it has done a part of its next iteration, which hops to its end."""
    tour = state.tours.get(trial.number)
    return tour is not None and tour.iteration == trial.iteration + 1 and bool(tour.seen)


def _end_round(turn: Step, room: PoolState) -> None:
    """After training comes the evaluation, where there are data for it."""
    state, now, data = turn.state, room.hall.round, turn.state.data
    room.hall.round = None
    if now is None or now.evaluates or not data.validation_rows:
        return
    trained = [number for number in now.open if len(state.tours[number].seen) >= data.partitions]
    if trained:
        _open_round(state, room, trained, evaluates=True)


def _open_round(state: State, room: PoolState, trials: list[TrialId], *, evaluates: bool) -> None:
    epoch = epoch_of(state, room, trials, evaluates=evaluates)
    room.hall.round = HopRound(
        floor=EpochState(epoch, now_s=state.now_s),
        scheduler=_scheduler(state, room),
        open=dict.fromkeys(trials),
        evaluates=evaluates,
    )


def _scheduler(state: State, room: PoolState) -> Scheduler:
    return make_scheduler(state.data.scheduler, seed=room.hall.rounds, hasty=True)


def _dispatch(turn: Step, room: PoolState) -> None:
    state, now, data = turn.state, room.hall.round, turn.state.data
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


def _look_around(turn: Step, room: PoolState) -> None:
    """Workers came or went, or a model was lost with its node: the rest of the round is planned anew."""
    state, now = turn.state, room.hall.round
    if not room.hall.stale:
        return
    room.hall.stale = False
    if now is None:
        return
    lay_out_data(turn, room, workers_of(state, room))
    trials = [number for number in now.open if number in state.tours]
    now.floor = EpochState(epoch_of(state, room, trials, evaluates=now.evaluates), now_s=state.now_s)
    now.scheduler = _scheduler(state, room)


def _open_trials(state: State, room: PoolState) -> list[Trial]:
    """Those that wait to be trained, best first."""
    return [
        state.trials[wish.trial]
        for wish in state.wishes.trials
        if wish.pool == room.pool.number
        and state.trials[wish.trial].activity is None
        and guards.is_open(state, state.trials[wish.trial], wish)
    ]
