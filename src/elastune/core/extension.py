"""What a person or a program may ask of a run: its end, new limits, the end of a trial, a configuration.

`refusal` decides before a request becomes an event: a refused one changes nothing and is not journalled. New
limits hold at once: timers and leases move with them. A run that has ended goes on from its checkpoints: the
trials that were in the race at its end are paused again, the policy hears what it missed while the run was
shutting down, and the run is suspended until `Resumed`.
"""

from __future__ import annotations

from elastune.core import gangs, limits
from elastune.core.commands import Ending, LimitNodes
from elastune.core.events import (
    AnyRequest,
    ConfigAdded,
    RestAsked,
    RunExtended,
    StopAsked,
    TrialStopAsked,
)
from elastune.core.policy import Policy
from elastune.core.state import State, Step
from elastune.core.trials import Activity
from elastune.model.ids import TrialId
from elastune.model.limits import Limits
from elastune.wording import format_duration, format_usd, plural


def refusal(state: State, policy: Policy, request: AnyRequest) -> str | None:
    """Why the request cannot be granted now; None: it can."""
    if state.ended is not None and not isinstance(request, RunExtended):
        return f"the run has ended ({state.ended.value})"
    if state.ended is None and state.shutdown is not None:
        return f"the run is shutting down ({state.shutdown.value}); wait until it has ended"
    match request:
        case RunExtended():
            why = _wrong_limits(state, request) or _wrong_end(state) or policy.refuses(request, state)
        case TrialStopAsked(trial=number):
            why = _wrong_trial(state, number)
        case ConfigAdded():
            why = policy.refuses(request, state)
        case StopAsked() | RestAsked():
            is_double = isinstance(request, RestAsked) and state.suspended
            why = "the run is being suspended already" if is_double else None
    return why


def _wrong_trial(state: State, number: TrialId) -> str | None:
    trial = state.trials.get(number)
    if trial is None:
        last = len(state.trials) - 1
        return f"there is no trial {number}; " + (f"there are 0 to {last}" if last >= 0 else "there are none")
    return f"trial {number} is over already ({trial.phase.value})" if trial.phase.is_over else None


def _wrong_end(state: State) -> str | None:
    """Why a run that ended like this cannot go on, whatever its limits are."""
    if state.ended is Ending.TARGET:
        return (
            f"the run has reached its target ({state.terms.target}); a new search can begin with its trials"
        )
    if state.ended is Ending.FAILED and state.best is None and any(t.error for t in state.trials.values()):
        return "no trial of the run has a model to go on from: fix the cause and start a new run"
    return None


def _wrong_limits(state: State, request: RunExtended) -> str | None:
    """Why the limits that would be in force cannot be kept any more."""
    changed, now_s = _changed(state.limits, request), state.now_s
    deadline, budget = changed.deadline_s, changed.budget_usd
    is_late = state.ended is Ending.DEADLINE and request.deadline_s is None
    if deadline is not None and (is_late or deadline - state.terms.winding_up_s <= now_s):
        used = f"the run has used {format_duration(now_s + state.startup_s)}"
        given = format_duration(max(0.0, deadline + state.startup_s))
        if request.deadline_s is None:
            return f"the deadline of {given} is over: {used}; extend it, too"
        return f"a deadline of {given} is too early: {used}; expected more, for all of it"
    committed = limits.committed_usd(state)
    is_spent = state.ended is Ending.BUDGET and request.budget_usd is None
    if budget is not None and (is_spent or committed >= budget * (1 - limits.ROUNDING)):
        spent = f"{format_usd(committed)} is spent or committed"
        if request.budget_usd is None:
            return f"the budget of {format_usd(budget)} is used up: {spent}; extend it, too"
        return f"a budget of {format_usd(budget)} is too small: {spent}; expected more, for the whole run"
    if request.more_trials and state.exhausted:
        return "the space has no more configurations"
    return None if request.max_nodes is None else _wrong_nodes(state, request.max_nodes)


def _wrong_nodes(state: State, most: int) -> str | None:
    cluster, data = state.terms.cluster, state.terms.data
    if cluster.fixed:
        return f"the cluster has a fixed number of nodes, {cluster.max_nodes}: expected no other max_nodes"
    if most < state.nodes_committed:
        held = plural(state.nodes_committed, "node")
        return f"max_nodes {most} is too small: the run has {held} now; expected no fewer"
    slots = max(state.terms.gangs.min_slots, 0 if data is None else data.least_workers)
    least = max(1, -(-slots // cluster.slots_per_node))
    return f"max_nodes {most} is too small: one trial needs {plural(least, 'node')}" if most < least else None


def _changed(present: Limits, request: RunExtended) -> Limits:
    return limits.changed(present, request.deadline_s, request.budget_usd)


def extend(step: Step, event: RunExtended) -> None:
    """New limits hold from now on; a run that has ended is suspended and can go on."""
    state = step.state
    if state.ended is not None:
        _reopen(step)
    if event.max_nodes is not None:
        limits.limit_nodes(state, event.max_nodes)
        step.emit(LimitNodes(most=event.max_nodes))
    limits.renegotiate(step, event.deadline_s, event.budget_usd)
    limits.set_deadline(step)
    state.called = False
    state.changes.more_trials += event.more_trials
    if event.max_nodes is not None:
        step.note("limits", f"from now on at most {plural(event.max_nodes, 'node')}")
    if event.more_trials:
        step.note("limits", f"{plural(event.more_trials, 'more trial')}")
    state.vetoed.clear()
    _lend_again(step)


def _lend_again(step: Step) -> None:
    """Leases end at the last call, which has moved."""
    state = step.state
    for number in tuple(state.held):
        trial, wish = state.trials[number], state.wished.get(number)
        trains = trial.activity in {Activity.STARTING, Activity.TRAINING}
        if wish is not None and trains and trial.visit is None and not trial.revoked:
            gangs.lend(step, trial, wish)


def _reopen(step: Step) -> None:
    state = step.state
    ended = "" if state.ended is None else state.ended.value
    step.note("reopened", f"the run had ended ({ended}) and goes on from its checkpoints")
    state.shutdown = state.ended = state.ended_s = None
    state.suspended, state.called, state.unreachable = True, False, None
    for number in state.changes.cut:
        state.trials[number].revive()
    state.changes.cut.clear()
    for trial in state.trials.values():
        trial.late_after_s = None
    state.hop_progress.clear()  # models in the middle of an iteration were not kept
    for pool_state in state.pools.values():
        pool = pool_state.pool
        pool.retry_s, pool.refusals = None, 0
        state.ledger.reopen_stage(pool.number, pool.stage, state.now_s)


def stop_trial(step: Step, event: TrialStopAsked) -> None:
    step.note("stop", f"trial {event.trial}: {event.reason}")


def add(step: Step, event: ConfigAdded) -> None:
    """The next new trial gets these values."""
    step.state.changes.queued.append(event.config)
    given = ", ".join(f"{name} {value}" for name, value in event.config.items())
    step.note("added", f"the next new trial has {given or 'no given values'}")
