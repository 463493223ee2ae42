"""How a run ends: it winds up (nothing new starts, what runs is saved), then everything is released."""

from __future__ import annotations

from elastune.core import cluster_manager, gangs, hop_rounds, hopping, limits, scheduling
from elastune.core.commands import Ending, EndRun, Rest
from elastune.core.state import Step
from elastune.core.trials import Activity, Phase
from elastune.core.wishes import Wishes
from elastune.model.limits import Limit


def close(step: Step, ending: Ending) -> None:
    """Start to wind up. The first reason counts."""
    state = step.state
    if state.shutdown is not None or state.ended is not None:
        return
    state.shutdown = ending
    state.wishes, state.wished = Wishes(), {}
    hopping.end_rounds(state)
    for pool_state in state.pools.values():
        pool_state.queue.clear()
        pool_state.targets = None
    for number in tuple(state.held):
        gangs.revoke(step, state.trials[number])


def suspend(step: Step) -> None:
    """Save what runs. Unlike at the end, all wishes stay."""
    state = step.state
    state.suspended = True
    hopping.end_rounds(state)
    for number in tuple(state.held):
        if state.trials[number].activity is not Activity.SAVING:
            scheduling.give_way(step, state.trials[number])
    hop_rounds.save_models(step)


def suspend_if_quiet(step: Step) -> None:
    """Once everything is saved and the last node is released, the driver may exit."""
    state = step.state
    if state.suspended and not (state.held or state.nodes_committed or state.barriers or state.sampling):
        step.emit(Rest())


def stop_if_reached(step: Step) -> None:
    """Wind up once the best model, whose checkpoint is durable, reaches the job's target."""
    state = step.state
    target, best = state.terms.target, state.best
    if target is None or best is None or state.shutdown is not None:
        return
    if target.is_reached_by(best.metric):
        reached = f"trial {best.trial} has {best.metric:g} after iteration {best.iteration}"
        step.note("target", f"{target}: {reached}")
        close(step, Ending.TARGET)


def last_call(step: Step, limit: Limit) -> None:
    """No iteration that starts now would end in time. If only saves and barriers are left, the run goes on to
    the limit itself."""
    state = step.state
    held = [trial for trial in map(state.trials.__getitem__, state.held) if not trial.is_kept]
    saving = all(trial.activity is Activity.SAVING for trial in held)
    if saving and (held or state.barriers) and state.terms.may_exceed is not limit:
        state.called = True
    else:
        run_out(step, limit)


def run_out(step: Step, limit: Limit) -> None:
    """Time or money has run out: wind up, unless the job allows this limit to be exceeded."""
    if step.state.terms.may_exceed is limit:
        limits.concede(step, limit)
        scheduling.adopt(step, step.state.wishes)
        scheduling.fill(step)
    else:
        close(step, Ending.DEADLINE if limit is Limit.DEADLINE else Ending.BUDGET)


def end_run(step: Step, ending: Ending) -> None:
    """End everything now: gangs, nodes, timers."""
    state = step.state
    if state.ended is not None:
        return
    close(step, ending)
    for number in tuple(state.held):
        gangs.stop(step, state.trials[number])
    for trial in state.living():
        trial.step(Phase.STOPPED)
        state.changes.cut[trial.number] = None
    for pool_state in state.pools.values():
        cluster_manager.release(step, pool_state, list(pool_state.pool.nodes.values()))
    for timer in tuple(state.timers):
        step.cancel_timer(timer)
    state.ended, state.ended_s = state.shutdown, state.now_s
    state.ledger.close(state.now_s)
    step.emit(EndRun(reason=state.shutdown or ending, best=state.best))
