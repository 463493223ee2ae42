"""From wishes to visits: Cerebro's model hopping, the second way to execute trials.

The data stay where they are and the models hop. An iteration is an epoch: the trial visits every partition
once, each time on a worker that holds it. Trials train in *rounds*: all that are wished for take part in an
epoch, and the next begins when the last of them is through; so policies see one row per trial and epoch.
Where epochs overlap (`DataTerms.overlap`), a trial begins its next one, up to the iteration for which it is
wished, without waiting for the others. The slots of a wish are ignored. With few trials left, they train in
turn on all workers where that is faster (`TrainingMode.TOGETHER`): as a gang, each member on the partitions
that it holds anyway. The first epoch of such a gang measures whether it is.
"""

from __future__ import annotations

from elastune.core import gangs, limits
from elastune.core.commands import Visit
from elastune.core.events import VisitEnded
from elastune.core.hop_rounds import epoch_of, gang_of_all, in_time, is_trained, lay_out_data, workers_of
from elastune.core.hop_state import HopProgress, HopRound, worker_id
from elastune.core.observed_speed import TrainingSpell
from elastune.core.state import PoolState, State, Step
from elastune.core.trials import Trial
from elastune.errors import InvariantError
from elastune.hopping.epoch import Epoch, PartitionId, UnitEnded, UnitStarted
from elastune.hopping.epoch_state import EpochState, Scheduler
from elastune.hopping.schedulers import make_scheduler
from elastune.model.ids import TrialId


def fill_hops(step: Step, pool_state: PoolState) -> None:
    """Start visits on free workers."""
    while True:
        _join(step, pool_state)
        _replan(step, pool_state)
        if pool_state.hop_state.round is None and not _begin(step, pool_state):
            return
        _dispatch(step, pool_state)
        if pool_state.hop_state.round is None or not pool_state.hop_state.round.epoch.is_over:
            return
        _end_round(step, pool_state)


def settle_hops(step: Step, trial: Trial) -> None:
    """A visit ends early only if its trial is no longer wanted."""
    wish = step.state.wished.get(trial.number)
    if wish is None or step.state.shutdown or step.state.suspended or trial.phase.is_over:
        gangs.stop(step, trial)


def leave_out(step: Step) -> None:
    """After new wishes: trials without one leave their round."""
    state = step.state
    for pool_state in state.pools.values():
        now = pool_state.hop_state.round
        if now is None:
            continue
        for number in tuple(now.open):
            wish, trial = state.wished.get(number), state.trials[number]
            if wish is None or wish.pool != pool_state.pool.number or not limits.is_open(state, trial, wish):
                if trial.activity is not None:
                    gangs.stop(step, trial)
                now.drop(number, state.now_s)


def is_in_place(state: State, trial: Trial) -> bool:
    """Whether a trial that trains on all workers may keep them."""
    pool_state = state.pool_state(trial.pool)
    others = [t for t in _open_trials(state, pool_state) if t.number != trial.number]
    present = gang_of_all(state, pool_state, workers_of(state, pool_state), [trial, *others])
    return present is not None and set(trial.gang) == set(present.gang)


def visited(step: Step, trial: Trial, event: VisitEnded) -> None:
    """A visit is complete."""
    state, visit, slot = step.state, trial.visit, trial.gang[0]
    if visit is None:
        raise InvariantError(f"trial {trial.number} ended a visit, but is on none")
    pool_state = state.pool_state(trial.pool)
    progress = state.hop_progress[trial.number]
    if visit.partition in progress.seen or visit.done != len(progress.seen):
        raise InvariantError(f"trial {trial.number} was on {visit}, but has seen {progress.seen}")
    progress.seen.append(PartitionId(visit.partition))
    progress.at = slot.node
    if event.kept:
        progress.safe = len(progress.seen)
    _learn_pace(state, trial, visit, event)
    _note_left_out(step, event)
    _note_unused(step, event)
    now = pool_state.hop_state.round
    if now is not None:
        now.epoch.handle(UnitEnded(at_s=state.now_s, worker=worker_id(slot)))
        # Where epochs overlap, its evaluation comes next.
        pool_state.hop_state.stale |= now.evaluates is None and is_trained(state, trial.number)
    if visit.is_last:
        if len(event.rows) != 1:
            raise InvariantError(f"trial {trial.number} saw all partitions and has {len(event.rows)} rows")
        del state.hop_progress[trial.number]
        if now is not None:
            now.open.pop(trial.number, None)
    trial.visit = None
    gangs.dissolve(step, trial)
    if now is not None and trial.phase.is_over:
        now.drop(trial.number, state.now_s)
    if now is not None and now.epoch.is_over:
        _end_round(step, pool_state)


def _learn_pace(state: State, trial: Trial, visit: Visit, event: VisitEnded) -> None:
    data, node = state.data, trial.gang[0].node
    state.paces[visit.evaluates].add(trial.number, node, event.seconds, data.size(visit.partition))
    if not (visit.is_last or event.hopped or event.load_s):
        state.paces[0].beside.add(max(0.0, state.now_s - trial.since_s - event.seconds))
    part = data.part_of_iteration(visit.partition)
    state.observed_speed.trained(TrainingSpell(trial.number, 1, part, event.seconds))


def _note_left_out(step: Step, event: VisitEnded) -> None:
    """Once for every metric: its value is of a part of the data."""
    for name in event.left_out:
        if (topic := f"left out: {name}") not in step.state.noted:
            step.state.noted |= {topic}
            text = f"some visits of trial {event.trial} reported no {name!r}: its mean is over the others"
            step.note("metrics", f"{text}; report it for every partition")


def _note_unused(step: Step, event: VisitEnded) -> None:
    """Once: the trials of a run have one code."""
    if event.unused and "unused data" not in step.state.noted:
        step.state.noted |= {"unused data"}
        step.note("data", f"trial {event.trial}: {event.unused}")


def come_back(state: State) -> None:
    """The driver was down: models are only in the store, and workers hold no data."""
    for progress in state.hop_progress.values():
        progress.at = None
        progress.fall_back()
    for pool_state in state.pools.values():
        pool_state.hop_state.round, pool_state.hop_state.layout, pool_state.hop_state.roster = None, {}, ()


def end_rounds(state: State) -> None:
    """The run winds up or is suspended: no new visits."""
    for pool_state in state.pools.values():
        pool_state.hop_state.round = None


def _begin(step: Step, pool_state: PoolState) -> bool:
    """Begin a round of all trials that are wished for; False: none hops now."""
    state = step.state
    open_ = _open_trials(state, pool_state)
    if not open_ or pool_state.gangs or state.sampling:
        return False  # trials that are being drawn take part, too
    if not pool_state.hop_state.layout and not pool_state.pool.is_complete:
        return False  # otherwise the data of nodes still to come would be loaded twice
    workers = workers_of(state, pool_state)
    if not workers:
        return False
    lay_out_data(step, pool_state, workers)
    together = gang_of_all(state, pool_state, workers, open_)
    if together is not None and not any(_has_begun(state, trial) for trial in open_):
        wish = state.wished[open_[0].number]
        gangs.start(step, open_[0], together.gang, wish, shares=together.shares)
        return False
    part = in_time(state, open_, len(workers))
    _begin_epochs(state, part)
    if part:
        pool_state.hop_state.rounds += 1
        evaluates = None if state.data.overlap else False
        _open_round(state, pool_state, [trial.number for trial in part], evaluates=evaluates)
    return bool(part)


def _begin_epochs(state: State, trials: list[Trial]) -> None:
    for trial in trials:
        progress = state.hop_progress.get(trial.number)
        if progress is None or progress.iteration != trial.iteration + 1:
            state.hop_progress[trial.number] = HopProgress(trial.iteration + 1)


def _join(step: Step, pool_state: PoolState) -> None:
    """Where epochs overlap, waiting trials join the round, unless it has to end: nodes are to be released, or
    so few trials are left that they train faster in turn on all workers."""
    state, hop_state, pool = step.state, pool_state.hop_state, pool_state.pool
    now = hop_state.round
    if now is None or now.evaluates is not None or not now.open:
        return
    open_ = _open_trials(state, pool_state)
    waiting = [trial for trial in open_ if trial.number not in now.open]
    if not waiting or pool.coming > pool.wanted:
        return
    present = [state.trials[number] for number in now.open]
    if gang_of_all(state, pool_state, hop_state.roster, [*waiting, *present]) is not None:
        return
    joining = in_time(state, waiting, len(hop_state.roster), present)
    if joining:
        _begin_epochs(state, joining)
        now.open.update(dict.fromkeys(trial.number for trial in joining))
        hop_state.rounds += 1
        hop_state.stale = True


def _has_begun(state: State, trial: Trial) -> bool:
    """Whether it has done a part of its next iteration, which must then hop to its end."""
    progress = state.hop_progress.get(trial.number)
    return progress is not None and progress.iteration == trial.iteration + 1 and bool(progress.seen)


def _end_round(step: Step, pool_state: PoolState) -> None:
    """The evaluation follows the training, if there are validation data."""
    state, now, data = step.state, pool_state.hop_state.round, step.state.data
    pool_state.hop_state.round = None
    if now is None or now.evaluates is not False or not data.validation_rows:
        return
    trained = [number for number in now.open if len(state.hop_progress[number].seen) >= data.partitions]
    if trained:
        _open_round(state, pool_state, trained, evaluates=True)


def _open_round(
    state: State, pool_state: PoolState, trials: list[TrialId], *, evaluates: bool | None
) -> None:
    epoch = epoch_of(state, pool_state, trials, evaluates=evaluates)
    pool_state.hop_state.round = HopRound(
        epoch=EpochState(epoch, now_s=state.now_s),
        scheduler=_scheduler(state, pool_state, epoch),
        open=dict.fromkeys(trials),
        evaluates=evaluates,
    )


def _scheduler(state: State, pool_state: PoolState, epoch: Epoch) -> Scheduler:
    seed, goes_on = pool_state.hop_state.rounds, any(epoch.later_s.values())
    return make_scheduler(state.data.scheduler, seed=seed, hasty=True, goes_on=goes_on)


def _dispatch(step: Step, pool_state: PoolState) -> None:
    state, now, data = step.state, pool_state.hop_state.round, step.state.data
    if now is None:
        return
    slots = {worker_id(slot): slot for slot in pool_state.hop_state.roster}
    begun = now.scheduler.dispatch(now.epoch)
    for assignment in begun:
        now.epoch.handle(UnitStarted(at_s=state.now_s, unit=assignment.unit, worker=assignment.worker))
    for assignment in begun:
        unit, worker = assignment.unit, assignment.worker
        trial = state.trials[unit.trial]
        done, evaluates = len(state.hop_progress[unit.trial].seen), data.is_validation(unit.partition)
        visit = Visit(unit.partition, done, data.visits, evaluates)
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


def _replan(step: Step, pool_state: PoolState) -> None:
    """If workers came or went, or a model was lost, plan the rest of the round again."""
    state, now, is_stale = step.state, pool_state.hop_state.round, pool_state.hop_state.stale
    pool_state.hop_state.stale = False
    if now is None or not is_stale:
        return
    lay_out_data(step, pool_state, workers_of(state, pool_state))
    trials = [number for number in now.open if number in state.hop_progress]
    epoch = epoch_of(state, pool_state, trials, evaluates=now.evaluates)
    now.epoch = EpochState(epoch, now_s=state.now_s)
    now.scheduler = _scheduler(state, pool_state, epoch)


def _open_trials(state: State, pool_state: PoolState) -> list[Trial]:
    """The trials that wait to be trained, best first."""
    wishes = (wish for wish in state.wishes.trials if wish.pool == pool_state.pool.number)
    wanted = ((state.trials[wish.trial], wish) for wish in wishes)
    return [t for t, wish in wanted if t.activity is None and limits.is_open(state, t, wish)]
