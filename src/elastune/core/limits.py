"""The limits that hold whatever a policy wishes: time, money, and the number of nodes.

At the deadline the best checkpoint must be durable, so the last call comes a save earlier. Money committed is
what would be paid if the run shut down now: what has accrued, a save on every node, minimum charges, and the
same for requested nodes. The last call for money is when that reaches the budget; it moves as nodes come and
go. After a last call nothing new starts; at the limit itself everything ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from elastune.core.policy import Upcoming
from elastune.core.state import State, Step
from elastune.core.trials import Activity, Trial
from elastune.core.wishes import Wish
from elastune.model.billing import bills_nodes
from elastune.model.cluster import SECONDS_PER_HOUR
from elastune.model.limits import Limit, Limits, describe_limits
from elastune.wording import format_duration, format_usd

DEADLINE_CALL = "guard:deadline-call"
DEADLINE_END = "guard:deadline-end"
BUDGET = "guard:budget"
START_UP = "start-up"
"""The topic of the note about what the command took before the run."""
ROUNDING = 1e-9


def upcoming(state: State) -> Iterator[Upcoming]:
    """The last calls."""
    if DEADLINE_CALL in state.timers:
        text = "last call: what still trains is saved in time for the deadline"
        yield Upcoming(at_s=state.timers[DEADLINE_CALL], text=text)
    if state.limits.budget_usd is not None and state.money_call_s is not None:
        yield Upcoming(at_s=state.money_call_s, text="the budget is used up if all present nodes stay")


def deadline_call_s(state: State) -> float | None:
    """Leases end here; an iteration that ends later does not count.

    Money has no such time: when it runs out depends on the other gangs, and most of them stop before.
    """
    deadline = state.limits.deadline_s
    return None if deadline is None else max(0.0, deadline - state.terms.winding_up_s)


def _last_call_s(state: State) -> float:
    calls = (deadline_call_s(state), state.money_call_s)
    return min((call for call in calls if call is not None), default=math.inf)


def begin(step: Step, startup_s: float, deadline_s: float | None) -> None:
    """The deadline of the command less its start-up, which the plan could only estimate."""
    state = step.state
    state.startup_s = startup_s
    state.limits = changed(state.limits, deadline_s, None)
    set_deadline(step)
    if startup_s:
        left = ""
        if deadline_s is not None:
            whole = format_duration(deadline_s + startup_s)
            left = f"; {format_duration(deadline_s)} of the deadline of {whole} are left"
        step.note(START_UP, f"took {format_duration(startup_s)}{left}")


def set_deadline(step: Step) -> None:
    """Timers for the last call and for the end."""
    deadline, call = step.state.limits.deadline_s, deadline_call_s(step.state)
    if deadline is not None and call is not None:
        step.set_timer(DEADLINE_CALL, call)
        step.set_timer(DEADLINE_END, deadline)


def committed_usd(state: State) -> float:
    """What is paid in the end if the run shuts down from now on; after the last call: if it ends now.

    Every gang saves first; of a save that is under way only the rest counts. A gang that has saved and stays
    leaves at once.
    """
    allowance = _allowance_s(state)
    asked = _asked_usd(state, allowance)
    if not allowance:
        return state.ledger.accrued_usd(state.now_s) + asked
    gangs = {}
    for number in state.held:
        trial = state.trials[number]
        if trial.is_kept:
            continue
        saved_s = state.now_s - trial.since_s if trial.activity is Activity.SAVING else 0.0
        gangs[trial.gang] = max(0.0, allowance - saved_s)
    return state.ledger.wound_up_usd(state.now_s, gangs) + asked


def _allowance_s(state: State) -> float:
    if state.shutdown or state.called:
        return 0.0
    return state.terms.winding_up_s + state.terms.cluster.shutdown_s


def _asked_usd(state: State, lasting_s: float) -> float:
    return state.nodes_outstanding * state.ledger.node_usd(lasting_s)


def watch_money(step: Step) -> None:
    """Set the last call for money by the present nodes; after it, the end.

    The timer may fire early, because it counts a whole save for every gang, and is then set again.
    """
    state = step.state
    budget = state.limits.budget_usd
    if budget is None:
        return
    allowance = _allowance_s(state)
    until_s = state.ledger.lasts_until_s(budget - _asked_usd(state, allowance))
    call = None if until_s is None else until_s - allowance
    if call is not None and call <= state.now_s:
        left_usd = max(0.0, budget - committed_usd(state))
        # While gangs save, what is committed stands still: check at intervals, not all the time.
        step_s = max(left_usd / state.ledger.burn_usd_per_s, allowance / 50)
        call = min(state.now_s + step_s, max(state.now_s, until_s or state.now_s))
    if not (state.shutdown or state.called):
        state.money_call_s = call
    armed = state.timers.get(BUDGET)
    if call is not None and (armed is None or call < armed):
        step.set_timer(BUDGET, call)


def is_spent(state: State) -> bool:
    """Whether the last call for money has come; after it: whether the budget is used up."""
    budget = state.limits.budget_usd
    return budget is not None and committed_usd(state) >= budget * (1 - ROUNDING)


def allowed_nodes(state: State, count: int) -> tuple[int, str]:
    """How many of `count` more nodes may be requested, and what forbids the others.

    Every node request passes here: budget, `max_nodes` and expiry are checked in no other place.
    """
    cluster, call_s = state.terms.cluster, _last_call_s(state)
    if state.shutdown is not None:
        return 0, "the run is winding up"
    if state.now_s >= call_s:
        return 0, "the last call has passed"
    if state.now_s + cluster.queue.mean + cluster.init.mean >= call_s:
        return 0, "they would not be up before the last call"
    most, why = count, ""
    spare = cluster.max_nodes - state.nodes_committed
    if spare < most:
        most, why = max(0, spare), f"the cluster has at most {cluster.max_nodes} nodes"
    affordable = _within_rate(state)
    if affordable is not None and affordable < most:
        per_hour = f"{format_usd(cluster.most_usd_per_hour or 0.0)} per hour"
        most, why = max(0, affordable), f"all nodes together may cost {per_hour}"
    budget = state.limits.budget_usd
    price = state.ledger.node_usd(_allowance_s(state))
    if budget is not None and price > 0.0:
        affordable = math.floor((budget * (1 + ROUNDING) - committed_usd(state)) / price)
        if affordable < most:
            most, why = max(0, affordable), f"the budget of ${budget:,.2f} leaves no more"
        least_s = state.now_s + cluster.least_life_s
        while most and cluster.least_life_s and may_live_until_s(state, most) < least_s:
            most, why = most - 1, f"the budget of ${budget:,.2f} would not last until more of them are of use"
    return most, why


def _within_rate(state: State) -> int | None:
    """How many more nodes, of the most expensive kind, the spending rate allows; None: any number."""
    most, dearest = state.terms.cluster.most_usd_per_hour, state.terms.cluster.dearest_usd_per_s
    if most is None or not dearest:
        return None
    left = most * (1 + ROUNDING) / SECONDS_PER_HOUR
    if not bills_nodes(state.terms.cluster):  # all slots may be in use
        return math.floor(left / dearest) - state.nodes_committed
    return math.floor((left - state.ledger.burn_usd_per_s) / dearest) - state.nodes_outstanding


def may_live_until_s(state: State, more: int = 0) -> float:
    """Until when all nodes, with those requested and so many `more`, may run unattended within the budget.

    Nodes end themselves when the driver has not renewed their expiry for a while; should the driver die, they
    cost no more than the budget has left.
    """
    budget = state.limits.budget_usd
    if budget is None or not bills_nodes(state.terms.cluster):
        return math.inf
    until_s = state.ledger.lasts_until_s(budget, asked=state.nodes_outstanding + more, at_s=state.now_s)
    return math.inf if until_s is None else until_s - state.terms.cluster.shutdown_s


def changed(limits: Limits, deadline_s: float | None, budget_usd: float | None) -> Limits:
    """None: the limit stays."""
    deadline_s = limits.deadline_s if deadline_s is None else deadline_s
    return replace(
        limits, deadline_s=deadline_s, budget_usd=limits.budget_usd if budget_usd is None else budget_usd
    )


def renegotiate(step: Step, deadline_s: float | None, budget_usd: float | None) -> None:
    """New limits for a run that is resumed or extended; None: the limit stays. One that had been given up
    holds again."""
    state = step.state
    if deadline_s is None and budget_usd is None:
        return
    state.limits = changed(state.limits, deadline_s, budget_usd)
    state.terms = replace(state.terms, limits=changed(state.terms.limits, deadline_s, budget_usd))
    if deadline_s is not None:
        state.conceded -= {Limit.DEADLINE}
        set_deadline(step)
        for trial in state.trials.values():
            trial.late_after_s = None
    if budget_usd is not None:
        state.conceded -= {Limit.BUDGET}
    step.note("limits", f"from now on {describe_limits(by_command(state)) or 'no limit'}")


def by_command(state: State) -> Limits:
    """As people give them: the deadline counts from the command."""
    deadline_s = state.limits.deadline_s
    return changed(state.limits, None if deadline_s is None else deadline_s + state.startup_s, None)


def limit_nodes(state: State, most: int) -> None:
    """A new `max_nodes`."""
    state.terms = replace(state.terms, cluster=replace(state.terms.cluster, max_nodes=most))


def concede(step: Step, limit: Limit) -> None:
    """Give a limit up, if the job allows it to be exceeded."""
    state = step.state
    if state.terms.may_exceed is not limit:
        step.note("veto", f"the {limit.value} does not yield")
        return
    if limit is Limit.DEADLINE:
        state.limits = state.limits.without_deadline()
        step.cancel_timer(DEADLINE_CALL)
        step.cancel_timer(DEADLINE_END)
    elif limit is Limit.BUDGET:
        state.limits = state.limits.without_budget()
        state.money_call_s = None
        step.cancel_timer(BUDGET)
    state.conceded |= {limit}
    step.note("conceded", f"the {limit.value} gives way")


def is_open(state: State, trial: Trial, wish: Wish) -> bool:
    """Whether the trial has iterations left to train, and time."""
    if trial.phase.is_over or trial.returned or len(trial.values) >= wish.until_iteration:
        return False  # `has_done`, without a call: with thousands of trials it is asked very often
    if trial.late_after_s is None:
        return True
    call = deadline_call_s(state)
    return call is None or call > trial.late_after_s + ROUNDING
