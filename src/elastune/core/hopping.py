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


def fill_hops(step: Step, pool_state: PoolState) -> None:
    """Let free workers begin what is best begun now."""
    while True:
        _look_around(step, pool_state)
        if pool_state.hop_state.round is None and not _begin(step, pool_state):
            return
        _dispatch(step, pool_state)
        if pool_state.hop_state.round is None or not pool_state.hop_state.round.floor.is_over:
            return
        _end_round(step, pool_state)


def settle_hops(step: Step, trial: Trial) -> None:
    """A visit is never cut short, unless its trial is out."""
    wish = step.state.wished.get(trial.number)
    if wish is None or step.state.shutdown or step.state.suspended or trial.phase.is_over:
        gangs.stop(step, trial)


def leave_out(step: Step) -> None:
    """New wishes: who is not among them takes no further part in its round."""
    state = step.state
    for pool_state in state.pools.values():
        now = pool_state.hop_state.round
        if now is None:
            continue
        for number in tuple(now.open):
            wish, trial = state.wished.get(number), state.trials[number]
            if wish is None or wish.pool != pool_state.pool.number or not guards.is_open(state, trial, wish):
                if state.trials[number].activity is not None:
                    gangs.stop(step, state.trials[number])
                now.drop(number, state.now_s)


def is_in_place(state: State, trial: Trial) -> bool:
    """Whether a trial that has all workers may keep them."""
    pool_state = state.pool_state(trial.pool)
    open_ = [t for t in _open_trials(state, pool_state) if t.number != trial.number]
    workers = workers_of(state, pool_state)
    return set(trial.gang) == set(gang_of_all(state, pool_state, workers, len(open_) + 1) or ())


def visited(step: Step, trial: Trial, event: VisitEnded) -> None:
    """A visit came to its end in good order."""
    state, visit, slot = step.state, trial.visit, trial.gang[0]
    if visit is None:
        raise InvariantError(f"trial {trial.number} ended a visit that it was not on")
    pool_state = state.pool_state(trial.pool)
    data, tour = state.data, state.tours[trial.number]
    if visit.partition in tour.seen or visit.done != len(tour.seen):
        raise InvariantError(f"trial {trial.number} was on {visit}, but has seen {tour.seen}")
    tour.seen.append(PartitionId(visit.partition))
    tour.at = slot.node
    if event.kept:
        tour.safe = len(tour.seen)
    state.paces[visit.evaluates].add(trial.number, slot.node, event.seconds, data.size(visit.partition))
    state.observed_speed.trained(TrainingSpell(1, data.part_of_iteration(visit.partition), event.seconds))
    now = pool_state.hop_state.round
    if now is not None:
        now.floor.handle(UnitEnded(at_s=state.now_s, worker=worker_id(slot)))
    if visit.is_last:
        if len(event.rows) != 1:
            raise InvariantError(f"trial {trial.number} saw all partitions and has {len(event.rows)} rows")
        del state.tours[trial.number]
        if now is not None:
            now.open.pop(trial.number, None)
    trial.visit = None
    gangs.dissolve(step, trial)
    if now is not None and trial.phase.is_over:
        now.drop(trial.number, state.now_s)
    if now is not None and now.floor.is_over:
        _end_round(step, pool_state)


def come_back(state: State) -> None:
    """The driver was down: models are only in the store, and no worker holds data any more."""
    for tour in state.tours.values():
        tour.at = None
        tour.fall_back()
    for pool_state in state.pools.values():
        pool_state.hop_state.round, pool_state.hop_state.layout, pool_state.hop_state.roster = None, {}, ()


def end_rounds(state: State) -> None:
    """The run winds up or rests: nothing new is begun."""
    for pool_state in state.pools.values():
        pool_state.hop_state.round = None


# Rounds.


def _begin(step: Step, pool_state: PoolState) -> bool:
    """A new round of all that are wished for; False: there is nothing that hops now."""
    state = step.state
    open_ = _open_trials(state, pool_state)
    if not open_ or pool_state.gangs:
        return False
    if not pool_state.hop_state.layout and (
        pool_state.pool.outstanding or pool_state.pool.ready < pool_state.pool.staying
    ):
        return False  # the others come soon, and their part of the data would be loaded twice
    workers = workers_of(state, pool_state)
    if not workers:
        return False
    lay_out_data(step, pool_state, workers)
    gang = gang_of_all(state, pool_state, workers, len(open_))
    if gang is not None and not any(_is_amid(state, trial) for trial in open_):
        wish = state.wished[open_[0].number]
        shares = tuple(tuple(sorted(pool_state.hop_state.layout[worker_id(slot)])) for slot in gang)
        gangs.start(step, open_[0], gang, wish, shares=shares)
        return False
    part = in_time(state, open_, len(workers))
    for trial in part:
        tour = state.tours.get(trial.number)
        if tour is None or tour.iteration != trial.iteration + 1:
            state.tours[trial.number] = HopProgress(trial.iteration + 1)
    if part:
        pool_state.hop_state.rounds += 1
        _open_round(state, pool_state, [trial.number for trial in part], evaluates=False)
    return bool(part)


def _is_amid(state: State, trial: Trial) -> bool:
    """Whether it has done a part of its next iteration, which hops to its end."""
    tour = state.tours.get(trial.number)
    return tour is not None and tour.iteration == trial.iteration + 1 and bool(tour.seen)


def _end_round(step: Step, pool_state: PoolState) -> None:
    """After training comes the evaluation, where there are data for it."""
    state, now, data = step.state, pool_state.hop_state.round, step.state.data
    pool_state.hop_state.round = None
    if now is None or now.evaluates or not data.validation_rows:
        return
    trained = [number for number in now.open if len(state.tours[number].seen) >= data.partitions]
    if trained:
        _open_round(state, pool_state, trained, evaluates=True)


def _open_round(state: State, pool_state: PoolState, trials: list[TrialId], *, evaluates: bool) -> None:
    epoch = epoch_of(state, pool_state, trials, evaluates=evaluates)
    pool_state.hop_state.round = HopRound(
        floor=EpochState(epoch, now_s=state.now_s),
        scheduler=_scheduler(state, pool_state),
        open=dict.fromkeys(trials),
        evaluates=evaluates,
    )


def _scheduler(state: State, pool_state: PoolState) -> Scheduler:
    return make_scheduler(state.data.scheduler, seed=pool_state.hop_state.rounds, hasty=True)


def _dispatch(step: Step, pool_state: PoolState) -> None:
    state, now, data = step.state, pool_state.hop_state.round, step.state.data
    if now is None:
        return
    slots = {worker_id(slot): slot for slot in pool_state.hop_state.roster}
    begun = now.scheduler.dispatch(now.floor)
    for assignment in begun:
        now.floor.handle(UnitStarted(at_s=state.now_s, unit=assignment.unit, worker=assignment.worker))
    for assignment in begun:
        unit, worker = assignment.unit, assignment.worker
        trial = state.trials[unit.trial]
        visit = Visit(unit.partition, len(state.tours[unit.trial].seen), data.visits, now.evaluates)
        share = tuple(sorted(pool_state.hop_state.layout[worker]))
        gangs.start(
            step,
            trial,
            (slots[worker],),
            state.wished[unit.trial],
            shares=(share,),
            visit=visit,
            then=now.next_on(worker),
        )


def _look_around(step: Step, pool_state: PoolState) -> None:
    """Workers came or went, or a model was lost with its node: the rest of the round is planned anew."""
    state, now = step.state, pool_state.hop_state.round
    if not pool_state.hop_state.stale:
        return
    pool_state.hop_state.stale = False
    if now is None:
        return
    lay_out_data(step, pool_state, workers_of(state, pool_state))
    trials = [number for number in now.open if number in state.tours]
    now.floor = EpochState(epoch_of(state, pool_state, trials, evaluates=now.evaluates), now_s=state.now_s)
    now.scheduler = _scheduler(state, pool_state)


def _open_trials(state: State, pool_state: PoolState) -> list[Trial]:
    """Those that wait to be trained, best first."""
    return [
        state.trials[wish.trial]
        for wish in state.wishes.trials
        if wish.pool == pool_state.pool.number
        and state.trials[wish.trial].activity is None
        and guards.is_open(state, state.trials[wish.trial], wish)
    ]
