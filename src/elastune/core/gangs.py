"""The gang of one trial: form it, extend its lease, pause it, let it stay, stop it, dissolve it.

Each function updates the trial's phase, the free slots, the ledger and the commands together.
"""

from __future__ import annotations

from elastune.core import hop_rounds, limits
from elastune.core.commands import Pause, Revoke, Stop, Train, Visit
from elastune.core.observed_speed import TrainingSpell
from elastune.core.state import State, Step
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
    """Form a gang on free slots, from the last checkpoint; with a `visit`, for that visit only."""
    state = step.state
    pool_state = state.pool_state(wish.pool)
    pool_state.free_slots.take(gang)
    pool_state.gangs += 1
    for slot in gang:
        pool_state.occupants[slot.node][trial.number] = None
    trial.step(Phase.STARTING)
    trial.generation += 1
    trial.gang, trial.pool = gang, wish.pool
    trial.formed_s = trial.since_s = state.now_s
    state.held[trial.number] = None
    trial.shares, trial.visit, trial.activity = shares, visit, Activity.STARTING
    if visit is not None:  # models are loaded while others train, which takes no time of its own
        trial.activity, trial.begun_at = Activity.TRAINING, trial.iteration
        trial.step(Phase.RUNNING)
    state.ledger.gang_begins(gang, wish.pool, trial.activity, state.now_s)
    lend(step, trial, wish, then)


def lend(step: Step, trial: Trial, wish: Wish, then: TrialId | None = None) -> None:
    """Give the present gang a lease; a revocation that has not taken effect is withdrawn."""
    state = step.state
    until_s = limits.deadline_call_s(state)
    until = wish.until_iteration
    if trial.visit is not None or _is_unproven(state, trial):
        until = min(until, trial.iteration + 1)
    trial.lease = Lease(wish.until_iteration, until_s, wish.final)
    if wish.final:
        trial.final_goal = wish.until_iteration
    trial.revoked = trial.stays = False
    state.pool_state(trial.pool).staying.pop(trial.number, None)
    if trial.activity is Activity.WAITING:
        turn_to(step, trial, Activity.TRAINING)
    if trial.phase is Phase.RESIZING:
        trial.step(Phase.RUNNING)
    step.emit(
        Train(
            trial=trial.number,
            generation=trial.generation,
            gang=trial.gang,
            after_iteration=trial.iteration,
            until_iteration=until,
            until_s=until_s if trial.visit is None else None,
            keep_above=None if state.best is None else state.best.metric,
            origin=trial.parent if trial.inherited and trial.iteration == trial.inherited else None,
            shares=trial.shares,
            visit=trial.visit,
            then=then,
        )
    )


def _is_unproven(state: State, trial: Trial) -> bool:
    """A gang of all workers, where models hop: its first epoch shows whether it is faster than hopping."""
    return bool(trial.shares) and state.gang_speeds.speedup(len(trial.gang)) is None


def revoke(step: Step, trial: Trial, *, resizing: bool = False) -> None:
    """Free the slots after the present iteration, with a save; a gang that has not begun, or that has saved
    already, just stops."""
    if resizing and trial.phase is Phase.RUNNING:
        trial.step(Phase.RESIZING)
    match trial.activity:
        case Activity.TRAINING if trial.visit is None:
            if not trial.revoked:
                trial.revoked = True
                step.emit(Revoke(trial=trial.number, generation=trial.generation))
        case Activity.STARTING | Activity.TRAINING:
            stop(step, trial)
        case Activity.WAITING if trial.stays:
            stop(step, trial)
        case Activity.WAITING:
            turn_to(step, trial, Activity.SAVING)
            step.emit(Pause(trial=trial.number, generation=trial.generation))
        case None:
            raise InvariantError(f"trial {trial.number} has no gang to revoke")


def keep(step: Step, trial: Trial) -> None:
    """Save the state of a waiting gang, which then waits for what the policy decides."""
    trial.stays = True
    step.state.pool_state(trial.pool).staying[trial.number] = None
    turn_to(step, trial, Activity.SAVING)
    step.emit(Pause(trial=trial.number, generation=trial.generation, stay=True))


def stop(step: Step, trial: Trial) -> None:
    """Dissolve the gang at once; work since the last checkpoint is lost."""
    step.emit(Stop(trial=trial.number, generation=trial.generation))
    dissolve(step, trial)


def dissolve(step: Step, trial: Trial) -> None:
    """The gang is gone. What was not saved is lost."""
    state = step.state
    if trial.activity is None:
        raise InvariantError(f"trial {trial.number} has no gang to dissolve")
    gang, activity, now = trial.gang, trial.activity, state.now_s
    state.ledger.gang_used(trial.number, gang, activity, now - trial.since_s)
    state.ledger.gang_ends(gang, trial.pool, activity, trial.formed_s, now)
    pool_state = state.pool_state(trial.pool)
    pool_state.free_slots.give(gang)
    pool_state.gangs -= 1
    pool_state.changed = True
    for slot in gang:
        pool_state.occupants.get(slot.node, {}).pop(trial.number, None)
    del state.held[trial.number]
    lease, visit = trial.lease, trial.visit
    trial.gang, trial.activity, trial.lease = (), None, None
    trial.revoked = trial.stays = False
    pool_state.staying.pop(trial.number, None)
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
        _repeat_visit(step, trial, gang[0])


def _repeat_visit(step: Step, trial: Trial, slot: Slot) -> None:
    """A visit failed: it is made again, from a model state that still exists."""
    state = step.state
    progress, hop_state = state.hop_progress.get(trial.number), state.pool_state(trial.pool).hop_state
    if progress is not None and progress.at is None and progress.fall_back():
        hop_state.stale = True
    now = hop_state.round
    if now is not None:
        now.put_back(trial.number, slot, state.now_s)
        if trial.phase.is_over:
            now.drop(trial.number, state.now_s)


def turn_to(step: Step, trial: Trial, activity: Activity) -> None:
    """The activity of the gang changes."""
    state, before = step.state, trial.activity
    now = state.now_s
    if before is None:
        raise InvariantError(f"trial {trial.number} has no gang")
    state.ledger.gang_used(trial.number, trial.gang, before, now - trial.since_s)
    state.ledger.gang_turns(trial.pool, len(trial.gang), before, activity, now)
    if before is Activity.STARTING and not state.terms.continuing.repeated(trial.iteration, kept=False):
        state.observed_speed.startup.add(now - trial.since_s)
    elif before is Activity.TRAINING and trial.iteration > trial.begun_at:
        repeated = state.terms.continuing.repeated(trial.begun_at, kept=True)
        iterations, seconds = trial.iteration - trial.begun_at + repeated, now - trial.since_s
        spell = TrainingSpell(trial.number, len(trial.gang), iterations, seconds)
        state.observed_speed.trained(spell)
        if trial.shares and trial.visit is None:
            alone_s = iterations * hop_rounds.epoch_s(state, trial)
            state.gang_speeds.add(len(trial.gang), alone_s, seconds)
    if activity is Activity.TRAINING:
        trial.begun_at = trial.iteration
    trial.activity, trial.since_s = activity, now
