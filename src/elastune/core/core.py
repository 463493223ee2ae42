"""The core: a run as a function of (terms, policy, events so far). It does no I/O and reads no clock.

`Core.handle` is the only way to change the state. An event is first applied to the state (`_apply`); then the
policy gives its advice, and the core grants what capacity, deadline and budget allow (`_enact`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from elastune.core import (
    cluster_manager,
    extension,
    gangs,
    hop_rounds,
    hopping,
    limits,
    node_events,
    run_failure,
    scheduling,
    shutdown,
    trial_events,
)
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.policy import Policy, Vetoed
from elastune.core.state import State, Step
from elastune.core.terms import RunTerms
from elastune.core.trials import Phase, Trial
from elastune.core.wishes import Advice
from elastune.errors import InvariantError
from elastune.model.ids import TrialId
from elastune.model.limits import Limit

# How often a policy may answer refused nodes with new wishes, per event.
_MAX_VETO_ANSWERS = 4

# These free no slots and move no node: without advice there is nothing to do.
_QUIET = frozenset({ev.GangStarted, ev.Progressed})


class Core:
    def __init__(self, terms: RunTerms, policy: Policy) -> None:
        self.state = State(terms)
        self.policy = policy
        self.max_nodes = terms.cluster.max_nodes  # as agreed with the provider before the run

    def handle(self, event: ev.AnyEvent) -> Sequence[do.AnyCommand]:
        """Apply an event; returns the commands that follow from it, in order."""
        state = self.state
        if event.at_s < state.now_s:
            raise InvariantError(f"{event} is earlier than the present, {state.now_s}")
        state.now_s = event.at_s
        state.events += 1
        step = Step(state)
        waiting = self._apply(step, event)
        if state.ended is not None:
            state.changes.missed.append(event)
            return step.commands
        shutdown.stop_if_reached(step)
        if run_failure.stop_if_hopeless(step):
            return step.commands
        self._ask_policy(step, event, waiting)
        return step.commands

    def refusal(self, request: ev.AnyRequest) -> str | None:
        """Why this request of a person or a program cannot be granted now; None: it can be handled."""
        return extension.refusal(self.state, self.policy, request)

    def _ask_policy(self, step: Step, event: ev.AnyEvent, waiting: Trial | None) -> None:
        state, policy = self.state, self.policy
        advice: Advice | None = None
        if state.shutdown is not None:
            state.changes.missed.append(event)
        else:
            if state.changes.missed:
                self._catch_up(step)
            is_start = isinstance(event, ev.RunStarted)
            advice = policy.start(state) if is_start else policy.handle(event, state)
        if advice is None and waiting is None and type(event) in _QUIET and not step.commands:
            return
        vetoes = self._enact(step, advice, waiting)
        for _ in range(_MAX_VETO_ANSWERS):
            if not vetoes or state.shutdown is not None:
                break
            vetoes = [more for veto in vetoes for more in self._answer(step, veto)]
        if state.shutdown is None and _is_barred(state):
            shutdown.close(step, do.Ending.FAILED if state.limits.budget_usd is None else do.Ending.BUDGET)
            shutdown.end_run(step, do.Ending.BUDGET)

    def _catch_up(self, step: Step) -> None:
        """After an extension the policy hears what happened while the run was shutting down; its wishes
        follow with its answer to the extension itself."""
        missed, self.state.changes.missed = self.state.changes.missed, []
        for event in missed:
            advice = self.policy.handle(event, self.state)
            if advice is not None:
                self._take_advice(step, replace(advice, wishes=None, done=None))

    def _answer(self, step: Step, veto: Vetoed) -> list[Vetoed]:
        advice = self.policy.handle(veto, self.state) if self.state.shutdown is None else None
        return [] if advice is None else self._enact(step, advice, None)

    def _enact(self, step: Step, advice: Advice | None, waiting: Trial | None) -> list[Vetoed]:
        state = self.state
        if advice is not None:
            self._take_advice(step, advice)
        if waiting is not None:
            scheduling.settle(step, waiting)
        vetoes = cluster_manager.reconcile(step)  # release surplus nodes before gangs are placed on them
        scheduling.fill(step)
        if state.unreachable is not None and state.shutdown is None:
            state.cause = state.unreachable
            step.note("data", state.unreachable)
            shutdown.close(step, do.Ending.FAILED)
        if not state.wishes.steady:
            vetoes += cluster_manager.reconcile(step)  # packing may have emptied nodes
        if advice is not None and advice.done is not None:
            shutdown.close(step, run_failure.honest_ending(step, advice.done))
        if state.shutdown is None and not state.suspended and _is_stuck(state):
            shutdown.run_out(step, Limit.DEADLINE)
        if state.shutdown is not None and not state.held:
            shutdown.end_run(step, state.shutdown)
            return []
        limits.watch_money(step)
        shutdown.suspend_if_quiet(step)
        return vetoes

    def _take_advice(self, step: Step, advice: Advice) -> None:
        state = self.state
        for topic, text in advice.notes:
            step.note(topic, text)
        if advice.concede is not None:
            limits.concede(step, advice.concede)
        if advice.stop:
            self._stop(step, advice.stop)
        for number in advice.drop:
            if (trial := state.trial(number)).activity is not None:
                gangs.stop(step, trial)
        for timer, at_s in advice.timers.items():
            step.set_timer(timer, at_s)
        for timer, at_s in advice.reviews.items():
            step.set_timer(timer, at_s, fresh=True)
        for pool, stage in advice.barriers:
            state.barriers[pool, stage] = None
            step.emit(do.Barrier(pool=pool, stage=stage))
        trial_events.request_trials(step, advice.sample, advice.fork)
        if advice.wishes is not None:
            scheduling.adopt(step, advice.wishes)

    def _stop(self, step: Step, trials: Sequence[TrialId]) -> None:
        for number in trials:
            trial = self.state.trial(number)
            if not trial.phase.is_over:
                trial.step(Phase.STOPPED)
            if trial.activity is not None:
                gangs.stop(step, trial)
        hopping.leave_out(step)

    def _apply(self, step: Step, event: ev.AnyEvent) -> Trial | None:  # noqa: C901, PLR0912  one case per event
        """Apply the event to the state; returns the trial whose gang waits for an order, if one does."""
        match event:
            case ev.Progressed():  # and its subclasses
                return trial_events.progressed(step, event)
            case ev.GangStarted():
                trial_events.started(step, event)
            case ev.TrialPaused():
                return trial_events.paused(step, event)
            case ev.TrialsSampled():
                trial_events.sampled(step, event)
            case ev.ModelStowed():
                hop_rounds.model_saved(step, event)
            case ev.NodesGranted():
                node_events.granted(step, event)
            case ev.NodesRefused():
                node_events.refused(step, event)
            case ev.NodesReady():
                node_events.ready(step, event)
            case ev.NodeNoticed():
                node_events.noticed(step, event)
            case ev.NodeLost():
                node_events.lost(step, event.node, event.billed_s)
            case ev.NodeFound():
                node_events.found(step, event)
            case ev.TimerFired():
                self._timer_fired(step, event)
            case ev.BarrierPassed():
                self.state.barriers.pop((event.pool, event.stage), None)
                self.state.pool(event.pool).stage = event.stage + 1
                self.state.ledger.open_stage(event.pool, event.stage + 1, event.at_s)
            case ev.Resumed():
                self._resumed(step, event)
            case ev.RunStarted():
                limits.begin(step, event.startup_s, event.deadline_s)
            case _:
                self._grant(step, event)
        return None

    def _grant(self, step: Step, request: ev.AnyRequest) -> None:
        """Apply a request of a person or a program. Its id is remembered: it is applied once."""
        state = self.state
        if request.request_id:
            state.changes.request_ids[request.request_id] = None
        match request:
            case ev.StopAsked():
                if state.shutdown is None and state.ended is None:
                    step.note("stop", request.reason)
                    shutdown.close(step, do.Ending.STOPPED)
            case ev.RestAsked():
                if state.shutdown is None and not state.suspended:
                    step.note("rest", request.reason)
                    shutdown.suspend(step)
            case ev.RunExtended():
                extension.extend(step, request)
            case ev.TrialStopAsked(trial=trial):
                extension.stop_trial(step, request)
                self._stop(step, [trial])
            case ev.ConfigAdded():
                extension.add(step, request)

    def _timer_fired(self, step: Step, event: ev.TimerFired) -> None:
        state = self.state
        if state.timers.get(event.timer, float("inf")) > event.at_s:
            return  # moved or cancelled after it had fired
        del state.timers[event.timer]
        state.fresh.pop(event.timer, None)
        match event.timer:
            case limits.DEADLINE_CALL:
                shutdown.last_call(step, Limit.DEADLINE)
            case limits.DEADLINE_END:
                shutdown.end_run(step, do.Ending.DEADLINE)
            case limits.BUDGET if limits.is_spent(state):
                if state.shutdown is None and not state.called:
                    shutdown.last_call(step, Limit.BUDGET)
                else:
                    shutdown.end_run(step, do.Ending.BUDGET)
            case timer if timer.startswith(node_events.BOOT):
                node_events.give_up_booting(step, int(timer.removeprefix(node_events.BOOT)))

    def _resumed(self, step: Step, event: ev.Resumed) -> None:
        """No gang survived the driver. Unanswered requests are sent again."""
        state = self.state
        state.ledger.down(event.down_s)
        state.suspended = False
        limits.renegotiate(step, event.deadline_s, event.budget_usd)
        for number in tuple(state.held):
            gangs.dissolve(step, state.trials[number])
            scheduling.wait_again(step, state.trials[number])
        hopping.come_back(state)
        for node, billed_s in event.lost:
            if node in state.where:
                node_events.lost(step, node, billed_s)
            else:  # its release was ordered but not carried out
                state.ledger.found(node, event.at_s, billed_s)
        self._send_again(step)

    def _send_again(self, step: Step) -> None:
        """What the driver before had commanded and has no answer."""
        state = self.state
        if state.terms.cluster.max_nodes != self.max_nodes:
            step.emit(do.LimitNodes(most=state.terms.cluster.max_nodes))
        for pool_state in state.pools.values():
            for request, count in pool_state.pool.asked.items():
                step.emit(do.RequestNodes(request=request, count=count))
        if fresh := tuple(number for number in state.sampling if number not in state.forks):
            given = tuple(ev.Sampled(number, config) for number, config in state.changes.given.items())
            step.emit(do.Sample(trials=fresh, given=given))
        for number, (parent, iteration) in state.forks.items():
            step.emit(do.Fork(trial=number, parent=parent, iteration=iteration))
        for pool, stage in state.barriers:
            step.emit(do.Barrier(pool=pool, stage=stage))
        for timer, at_s in state.timers.items():
            step.emit(do.SetTimer(timer=timer, at_s=max(at_s, state.now_s), fresh=timer in state.fresh))


def _is_barred(state: State) -> bool:
    """Nodes are wanted, none is up or requested, and the limits allow none."""
    if state.where:
        return False
    pools = [pool_state.pool for pool_state in state.pools.values()]
    if not any(pool.wanted for pool in pools):
        return False
    return not any(pool.outstanding or (pool.retry_s or 0.0) > state.now_s for pool in pools)


def _is_stuck(state: State) -> bool:
    """Nothing runs or is under way, and the waiting trials have no time for one more iteration."""
    if state.barriers or state.sampling or not state.wished:
        return False
    for number in state.held:  # the first one mostly tells
        if not state.trials[number].is_kept:
            return False
    if any(each.queue or not each.pool.is_complete for each in state.pools.values()):
        return False
    waiting = ((state.trials[wish.trial], wish.until_iteration) for wish in state.wished.values())
    return any(t.late_after_s is not None and not t.phase.is_over and not t.has_done(n) for t, n in waiting)
