"""What can be done with the gang of one trial: form it, lengthen its lease, pause it, stop it, lose it.

Each step keeps four accounts in one go: the trial's phase, the free slots, the ledger, and the commands.
"""

from __future__ import annotations

from elastune.core import limits as guards
from elastune.core.commands import Pause, Revoke, Stop, Train, Visit
from elastune.core.observed_speed import TrainingSpell
from elastune.core.state import Step
from elastune.core.trials import Activity, Lease, Phase, Trial
from elastune.core.wishes import Wish
from elastune.errors import InvariantError
from elastune.model.ids import Gang, Slot, TrialId


def start(
    step: Step,
    trial: Trial,
    gang: Gang,
    wish: Wish,
    *,
    shares: tuple[tuple[int, ...], ...] = (),
    visit: Visit | None = None,
    then: TrialId | None = None,
) -> None:
    """A new gang takes free slots and loads the last checkpoint; with a `visit`, for that only."""
    state = step.state
    pool_state = state.pool_state(wish.pool)
    pool_state.free_slots.take(gang)
    pool_state.gangs += 1
    for slot in gang:
        pool_state.occupants[slot.node][trial.number] = None
    trial.step(Phase.STARTING)
    trial.generation += 1
    trial.gang, trial.pool = gang, wish.pool
    trial.formed_s = state.now_s
    state.held[trial.number] = None
    trial.shares, trial.visit = shares, visit
    trial.activity, trial.since_s = Activity.STARTING, state.now_s
    if visit is not None:  # models are brought while others train: there is no time of its own for that
        trial.activity, trial.begun_at = Activity.TRAINING, trial.iteration
        trial.step(Phase.RUNNING)
    state.ledger.gang_begins(gang, wish.pool, trial.activity, state.now_s)
    lend(step, trial, wish, then)


def lend(step: Step, trial: Trial, wish: Wish, then: TrialId | None = None) -> None:
    """A lease for the present gang; a revocation that has not acted yet is taken back."""
    state = step.state
    until_s = guards.deadline_call_s(state)
    trial.lease = Lease(wish.until_iteration, until_s, wish.final)
    trial.revoked = False
    if trial.activity is Activity.WAITING:
        turn_to(step, trial, Activity.TRAINING)
    if trial.phase is Phase.RESIZING:
        trial.step(Phase.RUNNING)
    step.tell(
        Train(
            trial=trial.number,
            generation=trial.generation,
            gang=trial.gang,
            after_iteration=trial.iteration,
            until_iteration=wish.until_iteration if trial.visit is None else trial.iteration + 1,
            until_s=until_s if trial.visit is None else None,
            keep_above=None if state.best is None else state.best.metric,
            origin=trial.parent if trial.inherited and trial.iteration == trial.inherited else None,
            shares=trial.shares,
            visit=trial.visit,
            then=then,
        )
    )


def revoke(step: Step, trial: Trial, *, resizing: bool = False) -> None:
    """Take the slots back in order.

    After the present iteration, with a save. What has not begun just stops.
    """
    if resizing and trial.phase is Phase.RUNNING:
        trial.step(Phase.RESIZING)
    match trial.activity:
        case Activity.STARTING:
            stop(step, trial)
        case Activity.TRAINING if trial.visit is not None:
            stop(step, trial)
        case Activity.TRAINING:
            if not trial.revoked:
                trial.revoked = True
                step.tell(Revoke(trial=trial.number, generation=trial.generation))
        case Activity.WAITING:
            pause(step, trial)
        case Activity.SAVING:
            pass
        case None:
            raise InvariantError(f"trial {trial.number} has no gang to revoke")


def pause(step: Step, trial: Trial) -> None:
    """The gang waits: save, then free the slots."""
    turn_to(step, trial, Activity.SAVING)
    step.tell(Pause(trial=trial.number, generation=trial.generation))


def stop(step: Step, trial: Trial) -> None:
    """Drop the gang at once; work since the last checkpoint is forgotten."""
    step.tell(Stop(trial=trial.number, generation=trial.generation))
    dissolve(step, trial)


def dissolve(step: Step, trial: Trial) -> None:
    """The gang is no more. What was not saved is lost."""
    state = step.state
    if trial.activity is None:
        raise InvariantError(f"trial {trial.number} has no gang to dissolve")
    gang, activity, now = trial.gang, trial.activity, state.now_s
    state.ledger.gang_used(trial.number, gang, activity, now - trial.since_s)
    state.ledger.gang_ends(gang, trial.pool, activity, trial.formed_s, now)
    pool_state = state.pool_state(trial.pool)
    pool_state.free_slots.give(gang)
    pool_state.gangs -= 1
    pool_state.stirred = True
    for slot in gang:
        occupants = pool_state.occupants.get(slot.node)
        if occupants is not None:
            occupants.pop(trial.number, None)
    del state.held[trial.number]
    lease, visit = trial.lease, trial.visit
    trial.gang, trial.activity, trial.lease, trial.revoked = (), None, None, False
    trial.shares, trial.visit = (), None
    if trial.saved < trial.iteration:
        del trial.values[trial.saved :]
        trial.returned = False
    if not trial.phase.is_over:
        trial.step(Phase.PAUSED if trial.saved else Phase.SAMPLED)
        is_final = lease is not None and lease.final and trial.iteration >= lease.until_iteration
        if trial.saved and (trial.returned or is_final):
            trial.step(Phase.FINISHED)
    if visit is not None:
        _come_back(step, trial, gang[0])


def _come_back(step: Step, trial: Trial, slot: Slot) -> None:
    """A visit came to nothing: it is to be made again, from a state that is still there."""
    state = step.state
    tour, hop_state = state.tours.get(trial.number), state.pool_state(trial.pool).hop_state
    if tour is not None and tour.at is None and tour.fall_back():
        hop_state.stale = True
    now = hop_state.round
    if now is not None:
        now.put_back(trial.number, slot, state.now_s)
        if trial.phase.is_over:
            now.drop(trial.number, state.now_s)


def turn_to(step: Step, trial: Trial, activity: Activity) -> None:
    """The gang does something else from now on."""
    now = step.state.now_s
    before = trial.activity
    if before is None:
        raise InvariantError(f"trial {trial.number} has no gang")
    step.state.ledger.gang_used(trial.number, trial.gang, before, now - trial.since_s)
    step.state.ledger.gang_turns(trial.pool, len(trial.gang), before, activity, now)
    _learn(step, trial, before, now - trial.since_s)
    if activity is Activity.TRAINING:
        trial.begun_at = trial.iteration
    trial.activity, trial.since_s = activity, now


def _learn(step: Step, trial: Trial, did: Activity, seconds: float) -> None:
    """What the gang has done came to its end in good order: that tells how fast it is."""
    observed_speed = step.state.observed_speed
    match did:
        case Activity.STARTING:
            observed_speed.startup.add(seconds)
        case Activity.TRAINING if trial.iteration > trial.begun_at:
            observed_speed.trained(TrainingSpell(len(trial.gang), trial.iteration - trial.begun_at, seconds))
        case _:
            pass
