"""The limits that hold whatever a policy wishes: time, money, and the number of nodes.

The deadline is the instant at which the best checkpoint is durable, so the last call comes a save earlier.
Money committed is what would be paid if the run were wound up now: what has accrued, a save on every node,
minimum charges, and the same for nodes that are asked for. The last call for money is when that reaches the
budget; it moves whenever nodes come or go. After a last call nothing new begins; at the limit itself
everything ends.
"""

from __future__ import annotations

import math

from elastune.core.state import State
from elastune.core.turn import Turn
from elastune.planning.infeasible import Limit

DEADLINE_CALL = "guard:deadline-call"
DEADLINE_END = "guard:deadline-end"
BUDGET = "guard:budget"
ROUNDING = 1e-9


def last_call_s(state: State) -> float | None:
    """After this time no iteration may end that is to count."""
    calls = [call for call in (deadline_call_s(state), state.money_call_s) if call is not None]
    return min(calls, default=None)


def deadline_call_s(state: State) -> float | None:
    deadline = state.limits.deadline_s
    return None if deadline is None else max(0.0, deadline - state.terms.save_allowance_s)


def set_deadline(turn: Turn) -> None:
    """Timers for the last call and for the end."""
    deadline, call = turn.state.limits.deadline_s, deadline_call_s(turn.state)
    if deadline is not None and call is not None:
        turn.set_timer(DEADLINE_CALL, call)
        turn.set_timer(DEADLINE_END, deadline)


def committed_usd(state: State) -> float:
    """What is paid at the end if the run is wound up from now on; once it winds up: if it ends now."""
    allowance = state.terms.save_allowance_s if state.closing is None else 0.0
    asked = sum(room.pool.outstanding for room in state.rooms.values())
    return state.ledger.accrued_usd(state.now_s, allowance) + asked * state.ledger.node_usd(allowance)


def watch_money(turn: Turn) -> None:
    """Set the last call for money by the nodes of now. A timer that rings early is simply set again."""
    state = turn.state
    budget = state.limits.budget_usd
    if budget is None:
        state.money_call_s = None
        return
    burn = state.ledger.burn_usd_per_s
    if burn <= 0.0:
        state.money_call_s = None
        return
    call = state.now_s + max(0.0, budget - committed_usd(state)) / burn
    if state.closing is None:
        state.money_call_s = call
    armed = state.timers.get(BUDGET)
    if armed is None or call < armed:
        turn.set_timer(BUDGET, call)


def is_spent(state: State) -> bool:
    """Whether the last call for money has come; while the run winds up: whether the last cent has gone."""
    budget = state.limits.budget_usd
    return budget is not None and committed_usd(state) >= budget * (1 - ROUNDING)


def allowed_nodes(state: State, count: int) -> tuple[int, str]:
    """How many of `count` more nodes may be asked for, and what forbids the others.

    The one way by which a node can come to be: budget, `max_nodes` and expiry are checked here and only here.
    """
    if state.closing is not None:
        return 0, "the run is winding up"
    call = last_call_s(state)
    if call is not None and state.now_s >= call:
        return 0, "the last call has passed"
    most, why = count, ""
    spare = state.terms.cluster.max_nodes - state.nodes_committed
    if spare < most:
        most, why = max(0, spare), f"the cluster has at most {state.terms.cluster.max_nodes} nodes"
    budget = state.limits.budget_usd
    price = state.ledger.node_usd(state.terms.save_allowance_s)
    if budget is not None and price > 0.0:
        affordable = math.floor((budget * (1 + ROUNDING) - committed_usd(state)) / price)
        if affordable < most:
            most, why = max(0, affordable), f"the budget of ${budget:,.2f} leaves no more"
    return most, why


def concede(turn: Turn, limit: Limit) -> None:
    """Give a limit up, if the job says that it may yield."""
    state = turn.state
    if state.terms.yields is not limit:
        turn.note("veto", f"the {limit.value} does not yield")
        return
    if limit is Limit.DEADLINE:
        state.limits = state.limits.without_deadline()
        turn.cancel_timer(DEADLINE_CALL)
        turn.cancel_timer(DEADLINE_END)
    else:
        state.limits = state.limits.without_budget()
        turn.cancel_timer(BUDGET)
    state.conceded |= {limit}
    turn.note("conceded", f"the {limit.value} gives way")
