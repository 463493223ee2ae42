"""What `forecast` believes, for people: what the next dollars buy, and what the leader will reach."""

from __future__ import annotations

import math
from collections.abc import Iterator

from elastune.core.policy import Upcoming
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.model.metric import Mode
from elastune.policies.forecast_leases import TrialLeases
from elastune.wording import format_usd, plural


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


def scores_of(trial: Trial, state: State) -> list[float]:
    """Less is better."""
    return [-value for value in trial.values] if state.terms.mode is Mode.MAX else list(trial.values)
