"""What `forecast` believes, for people: before the run how time and money are divided, and during it what the
leases under way buy and what the leader will reach."""

from __future__ import annotations

import math
from collections.abc import Iterator

from elastune.core.policy import Upcoming
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.model.metric import Mode
from elastune.policies.forecast.leases import TrialLeases, scores_of
from elastune.policies.forecast.outlook import Outlook
from elastune.wording import format_duration, format_percent, format_usd, plural


def intentions(ahead: Outlook, state: State, *, trials: float) -> Iterator[str]:
    """Of a run that begins. `trials` that may be drawn."""
    least, shape = plural(ahead.least_slots, "slot"), ahead.shape
    until = format_duration(ahead.switch_s)
    paid = f"{format_percent(shape.exploring_money)} of the money" if ahead.is_paid else "all slots"
    many = "new trials" if math.isinf(trials) else f"up to {plural(int(trials), 'new trial')}"
    first = plural(ahead.first, "iteration")
    yield f"until {until}: {paid} for {many}, each at first {first} on {least}; the best train on"
    most = plural(ahead.sizes[-1], "slot")
    reach = plural(ahead.goal, "iteration")
    yield f"then: the rest for the best of them; the winner can reach {reach}, on at most {most}"
    slot_usd_s = state.terms.cluster.slot_usd_per_s
    if ahead.is_paid:
        usd = slot_usd_s * ahead.least_slots * ahead.iteration_s
        if usd > 1.0:
            yield f"each iteration on {least} costs {format_usd(usd)}"
        else:
            yield f"each {format_usd(1.0)} buys {plural(int(1.0 / usd), 'iteration')} on {least}"


def beliefs(leases: TrialLeases, state: State, *, exploring: bool) -> Iterator[Upcoming]:
    """What the leases under way buy, when the search turns to the best, what the leader will reach."""
    live, ahead = leases.live, leases.outlook
    if live:
        number = min(live, key=lambda each: (leases.ladder.better_than(each), each))
        usd = leases.usd_to_come(state)
        price = f"the next {format_usd(usd)} train" if usd else "in training:"
        text = f"{price} {plural(len(live), 'trial')}, the best of them {number} to iteration"
        ends_s = min(lent.since_s + lent.seconds for lent in live.values())
        yield Upcoming(at_s=max(state.now_s, ends_s), text=f"{text} {live[number].until}")
    if exploring and state.now_s < ahead.switch_s:
        yield Upcoming(at_s=ahead.switch_s, text="no new trials from then on: what is left goes to the best")
    best = state.best
    if best is not None and not state.trials[best.trial].phase.is_over and state.now_s < ahead.end_s:
        yield Upcoming(at_s=ahead.end_s, text=_forecast(leases, state.trials[best.trial], state))


def _forecast(leases: TrialLeases, leader: Trial, state: State) -> str:
    """By the end, on the slots that it has, or on the most that are efficient."""
    ahead, lent = leases.outlook, leases.live.get(leader.number)
    slots = lent.slots if lent else ahead.sizes[-1]
    more = int(ahead.left_s(state) / ahead.iteration_on_s(slots, state))
    reach = min(leader.iteration + more, leases.most or math.inf)
    told = leases.ladder.forecast(leader.number, scores_of(leader, state), int(reach))
    value = -told.score if state.terms.mode is Mode.MAX else told.score
    spread = f" ± {told.spread:.2g}" if told.spread else ""
    what = f"{state.terms.metric} {value:.4g}{spread}"
    return f"trial {leader.number} leads: {what} after iteration {told.iterations}"
