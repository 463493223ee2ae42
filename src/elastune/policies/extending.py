"""What policies share when a run is extended: how long the rest may take, more trials, reasons to refuse.

A schedule of rounds uses all of its time and money, so new limits stretch what is left of it by one factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from elastune.core.commands import Ending
from elastune.core.events import ConfigAdded, RunExtended
from elastune.core.state import State
from elastune.policies.costs import RoundCost, RoundCosts, money_for

WARM_START = "a new search can begin with its trials (warm_start)"
_MOST = 1e9
_REFINEMENTS = 40


def stretch(rest: Sequence[Sequence[RoundCost]], state: State, *, booted: bool) -> float:
    """How many times as long the rounds may take within the limits; 1 if no limit says so. `booted`: their
    nodes are up."""
    costs, left_s = RoundCosts.of(state.terms), state.time_left_s
    seconds, share = costs.seconds(rest), math.inf
    if seconds <= 0.0:
        return 1.0
    if left_s is not None:
        share = max(0.0, left_s - (0.0 if booted else costs.boot_s) - costs.save_s) / seconds
    left_usd = money_for(state, costs, rest)
    if left_usd is not None:
        share = _affordable(costs, rest, left_usd, most=share, booted=booted)
    return 1.0 if math.isinf(share) else share


def _affordable(
    costs: RoundCosts, rest: Sequence[Sequence[RoundCost]], usd: float, *, most: float, booted: bool
) -> float:
    """The largest factor up to `most` that the money pays for; infinite if the rounds cost nothing."""

    def is_paid(factor: float) -> bool:
        longer = [[replace(leg, seconds=leg.seconds * factor) for leg in track] for track in rest]
        return costs.price_usd(longer, booted=booted) <= usd

    high = 1.0
    while high < min(most, _MOST) and is_paid(high):
        high *= 2.0
    if high >= _MOST:
        return most
    if is_paid(high := min(high, most)):
        return high
    low = 0.0
    for _ in range(_REFINEMENTS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_paid(middle) else (low, middle)
    return low


def more_trials(left: float, request: RunExtended | ConfigAdded) -> float:
    """Trials still to draw after the request. A configuration takes the place of the next one, if there is
    one."""
    return left + request.more_trials if isinstance(request, RunExtended) else max(1, left)


def refuse_complete(state: State, *, takes_trials: bool = False) -> str | None:
    """A search that has trained all its trials has no use for more time or money."""
    if state.ended is not Ending.COMPLETE:
        return None
    other = "add trials, or " if takes_trials else ""
    return f"the search is complete: nothing is left to train; {other}{WARM_START}"


def refuse_endless(trials_left: float) -> str | None:
    """More trials where no number of trials ends the search."""
    if not math.isinf(trials_left):
        return None
    return "the search has no number of trials to add to: new ones start until a limit ends it"


def refuse_fixed(policy: str) -> str:
    """More trials, or a configuration, where all are drawn at the start."""
    return f"{policy} fixes its trials at the start; {WARM_START}"
