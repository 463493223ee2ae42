"""The core: a run as a function of (terms, policy, events so far). It does no I/O and knows no clock.

`Core.handle` is the only way to change the state. An event is first made part of the state (`_happens`);
then the policy gives its advice, and the core grants of it what capacity, deadline and budget allow
(`_enact`).
"""

from __future__ import annotations

from collections.abc import Sequence

from elastune.core import (
    cluster_manager as manager,
)
from elastune.core import (
    gangs,
    hopping,
)
from elastune.core import (
    hop_rounds as stowing,
)
from elastune.core import (
    limits as guards,
)
from elastune.core import (
    node_events as membership,
)
from elastune.core import (
    scheduling as seating,
)
from elastune.core import (
    trial_events as training,
)
from elastune.core.commands import AnyCommand, Barrier, Ending, Fork, RequestNodes, Sample, SetTimer
from elastune.core.events import (
    AnyEvent,
    BarrierPassed,
    GangStarted,
    ModelStowed,
    NodeFound,
    NodeLost,
    NodeNoticed,
    NodesGranted,
    NodesReady,
    NodesRefused,
    Progressed,
    RestAsked,
    Resumed,
    RunStarted,
    StopAsked,
    TimerFired,
    TrialPaused,
    TrialsSampled,
)
from elastune.core.policy import Policy, Vetoed
from elastune.core.shutdown import (
    close,
    end_run,
    last_call,
    rest,
    run_out,
    stop_if_hopeless,
    stop_if_reached,
    suspend_if_quiet,
)
from elastune.core.state import State, Step
from elastune.core.terms import RunTerms
from elastune.core.trials import Phase, Trial
from elastune.core.wishes import Advice
from elastune.errors import InvariantError
from elastune.model.ids import TrialId
from elastune.model.limits import Limit

# A policy that is refused nodes may wish for fewer; one that insists is not asked for ever.
_MOST_ANSWERS_TO_VETOES = 4

# They free no slots and move no node: unless the policy has something to say, there is nothing to do.
_QUIET = frozenset({GangStarted, Progressed})


class Core:
    def __init__(self, terms: RunTerms, policy: Policy) -> None:
        self.state = State(terms)
        self.policy = policy

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Take an event in; returns what is to be done about it, in order."""
        state = self.state
        if event.at_s < state.now_s:
            raise InvariantError(f"{event} lies before the present, {state.now_s}")
        state.now_s = event.at_s
        state.events += 1
        step = Step(state)
        concerned = self._happens(step, event)
        if state.ended is not None:
            return step.commands
        stop_if_reached(step)
        stop_if_hopeless(step)
        self._ask_policy(step, event, concerned)
        return step.commands

    def _ask_policy(self, step: Step, event: AnyEvent, concerned: Trial | None) -> None:
        state = self.state
        advice: Advice | None = None
        if state.shutdown is None:
            started = isinstance(event, RunStarted)
            advice = self.policy.start(state) if started else self.policy.handle(event, state)
        if advice is None and concerned is None and type(event) in _QUIET and not step.commands:
            return
        vetoes = self._enact(step, advice, concerned)
        for _ in range(_MOST_ANSWERS_TO_VETOES):
            if not vetoes or state.shutdown is not None:
                break
            vetoes = [more for veto in vetoes for more in self._answer(step, veto)]
        if state.shutdown is None and _is_barred(state):
            close(step, Ending.BUDGET if state.limits.budget_usd is not None else Ending.FAILED)
            end_run(step, Ending.BUDGET)

    def _answer(self, step: Step, veto: Vetoed) -> list[Vetoed]:
        advice = self.policy.handle(veto, self.state) if self.state.shutdown is None else None
        return [] if advice is None else self._enact(step, advice, None)

    def _enact(self, step: Step, advice: Advice | None, concerned: Trial | None) -> list[Vetoed]:
        state = self.state
        if advice is not None:
            self._take_advice(step, advice)
        if concerned is not None:
            seating.settle(step, concerned)
        vetoes = manager.reconcile(step)  # surplus nodes go, oldest first, before gangs sit down on them
        seating.fill(step)
        if state.unreachable is not None and state.shutdown is None:
            step.note("data", state.unreachable)
            close(step, Ending.FAILED)
        if not state.wishes.steady:
            vetoes += manager.reconcile(step)  # packing may have emptied nodes
        if advice is not None and advice.done is not None:
            close(step, advice.done)
        if state.shutdown is None and not state.suspended and _is_stuck(state):
            run_out(step, Limit.DEADLINE)
        if state.shutdown is not None and not state.held:
            end_run(step, state.shutdown)
            return []
        guards.watch_money(step)
        suspend_if_quiet(step)
        return vetoes

    def _take_advice(self, step: Step, advice: Advice) -> None:
        state = self.state
        for topic, text in advice.notes:
            step.note(topic, text)
        if advice.concede is not None:
            guards.concede(step, advice.concede)
        if advice.stop:
            self._stop(step, advice.stop)
        for timer, at_s in advice.timers.items():
            step.set_timer(timer, at_s)
        for timer, at_s in advice.reviews.items():
            step.set_timer(timer, at_s, fresh=True)
        for pool, stage in advice.barriers:
            state.barriers[pool, stage] = None
            step.tell(Barrier(pool=pool, stage=stage))
        training.ask_for(step, advice.sample, advice.fork)
        if advice.wishes is not None:
            seating.adopt(step, advice.wishes)

    def _stop(self, step: Step, trials: Sequence[TrialId]) -> None:
        for number in trials:
            trial = self.state.trial(number)
            if not trial.phase.is_over:
                trial.step(Phase.STOPPED)
            if trial.activity is not None:
                gangs.stop(step, trial)
        hopping.leave_out(step)

    def _happens(self, step: Step, event: AnyEvent) -> Trial | None:  # noqa: C901, PLR0912  one case per event
        """Make the event part of the state; returns the trial whose gang may have to be told what to do."""
        match event:
            case Progressed():  # and LeaseEnded, TrialCrashed
                return training.progressed(step, event)
            case GangStarted():
                training.started(step, event)
            case TrialPaused():
                training.paused(step, event)
            case TrialsSampled():
                training.sampled(step, event)
            case ModelStowed():
                stowing.stowed(step, event)
            case NodesGranted():
                membership.granted(step, event)
            case NodesRefused():
                membership.refused(step, event)
            case NodesReady():
                membership.ready(step, event)
            case NodeNoticed():
                membership.noticed(step, event)
            case NodeLost():
                membership.lost(step, event.node, event.billed_s)
            case NodeFound():
                membership.found(step, event)
            case TimerFired():
                self._timer_fired(step, event)
            case BarrierPassed():
                self.state.barriers.pop((event.pool, event.stage), None)
                self.state.pool(event.pool).stage = event.stage + 1
                self.state.ledger.open_stage(event.pool, event.stage + 1, event.at_s)
            case StopAsked():
                if self.state.shutdown is None and self.state.ended is None:
                    step.note("stop", event.reason)
                    close(step, Ending.STOPPED)
            case RestAsked():
                if self.state.shutdown is None and not self.state.suspended:
                    step.note("rest", event.reason)
                    rest(step)
            case Resumed():
                self._resumed(step, event)
            case RunStarted():
                guards.set_deadline(step)
        return None

    def _timer_fired(self, step: Step, event: TimerFired) -> None:
        state = self.state
        if state.timers.get(event.timer, float("inf")) > event.at_s:
            return  # it was moved or cancelled while its ring was on the way
        del state.timers[event.timer]
        state.fresh.pop(event.timer, None)
        match event.timer:
            case guards.DEADLINE_CALL:
                last_call(step, Limit.DEADLINE)
            case guards.DEADLINE_END:
                end_run(step, Ending.DEADLINE)
            case guards.BUDGET if guards.is_spent(state):
                if state.shutdown is None and not state.called:
                    last_call(step, Limit.BUDGET)
                else:
                    end_run(step, Ending.BUDGET)
            case timer if timer.startswith(membership.BOOT):
                membership.give_up_booting(step, int(timer.removeprefix(membership.BOOT)))

    def _resumed(self, step: Step, event: Resumed) -> None:
        """No gang survived the driver. Whatever was asked for and not answered is asked for again."""
        state = self.state
        state.ledger.down(event.down_s)
        state.suspended = False
        guards.renegotiate(step, event.deadline_s, event.budget_usd)
        for number in tuple(state.held):
            gangs.dissolve(step, state.trials[number])
            seating.wait_again(step, state.trials[number])
        hopping.come_back(state)
        for node, billed_s in event.lost:
            if node in state.where:
                membership.lost(step, node, billed_s)
            else:  # its release was commanded and not carried out
                state.ledger.found(node, event.at_s, billed_s)
        for pool_state in state.pools.values():
            for request, count in pool_state.pool.asked.items():
                step.tell(RequestNodes(request=request, count=count))
        fresh = tuple(number for number in state.sampling if number not in state.forks)
        if fresh:
            step.tell(Sample(trials=fresh))
        for number, (parent, iteration) in state.forks.items():
            step.tell(Fork(trial=number, parent=parent, iteration=iteration))
        for pool, stage in state.barriers:
            step.tell(Barrier(pool=pool, stage=stage))
        for timer, at_s in state.timers.items():
            step.tell(SetTimer(timer=timer, at_s=max(at_s, state.now_s), fresh=timer in state.fresh))


def _is_barred(state: State) -> bool:
    """Nodes are wanted, none is there or under way, and the guards allow none."""
    pools = [pool_state.pool for pool_state in state.pools.values()]
    if state.where or not any(pool.wanted for pool in pools):
        return False
    return not any(pool.outstanding or (pool.retry_s or 0.0) > state.now_s for pool in pools)


def _is_stuck(state: State) -> bool:
    """Nothing runs, nothing is under way, and the trials that wait have no time for one more iteration."""
    if state.held or state.barriers or state.sampling or not state.wished:
        return False
    if any(
        pool_state.queue or pool_state.pool.outstanding or pool_state.pool.ready < pool_state.pool.staying
        for pool_state in state.pools.values()
    ):
        return False
    waiting = (state.trials[wish.trial] for wish in state.wished.values())
    return any(
        not t.phase.is_over
        and t.late_after_s is not None
        and not t.has_done(state.wished[t.number].until_iteration)
        for t in waiting
    )
