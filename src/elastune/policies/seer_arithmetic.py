"""SEER's arithmetic (Dunlap et al. 2021, Algorithms 2 and 3): rounds and brackets for a time and a budget.

Time in any unit, the budget in slots times that unit; `min_round` is the paper's t_min, `min_slots` and
`max_slots` its p_min and p_max. Every number is the paper's, with two corrections: the example's first
bracket budget of 17.142 is an error (Algorithm 3 gives 34.286), and "remove the lowest floor(N / eta^k)"
means to keep that many. The time may depend on the number of rounds, because each one has overheads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

# 8.000000000000002 trials are eight, and 7.999999999999998 are eight as well.
_ROUNDING = 1e-9
# An end for the loop over rounds; more rounds would be longer than any deadline.
_MOST_ROUNDS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SeerTerms:
    eta: int = 4
    nu: int = 2
    min_round: float = 1.0
    min_slots: int = 1
    max_slots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeerBracket:
    """`trials` trials of `slots` slots each in the first round; `budget` in slots times time."""

    slots: int
    trials: int
    budget: float

    def left(self, eta: int, rounds: int) -> int:
        """Trials of this bracket after `rounds` rounds."""
        return self.trials // int(eta**rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeerShape:
    """`reference` is the paper's R*, `first_budget` its B_0. Brackets without trials are left out."""

    terms: SeerTerms
    reference: float
    rounds: int
    first_round: float
    first_budget: float
    brackets: tuple[SeerBracket, ...]

    @property
    def trials(self) -> int:
        return sum(bracket.trials for bracket in self.brackets)

    @property
    def slots(self) -> int:
        """Of all trials in the first round."""
        return sum(bracket.trials * bracket.slots for bracket in self.brackets)

    def duration(self, number: int) -> float:
        """Of round 0, 1, 2, ..."""
        return self.first_round * float(self.terms.eta**number)

    def gangs(self, number: int) -> tuple[int, ...]:
        """Slots of every trial of that round, largest first: the best trial gets the first."""
        eta = self.terms.eta
        return tuple(b.slots for b in reversed(self.brackets) for _ in range(b.left(eta, number)))


def shape_seer(time: float | Callable[[int], float], budget: float, terms: SeerTerms) -> SeerShape | None:
    """SEER's rounds and brackets for this time and budget. None: not enough for one round of one trial."""
    found = _largest_reference(time if callable(time) else lambda _: float(time), budget, terms)
    if found is None:
        return None
    rounds, reference = found
    first_round = terms.min_round * reference / float(terms.eta ** (rounds - 1))
    first_budget = terms.min_slots * terms.min_round * reference * rounds
    brackets = [
        SeerBracket(slots=slots, trials=_floor(share / (rounds * first_round * slots)), budget=share)
        for slots, share in _bracket_budgets(budget, first_budget, terms)
    ]
    return SeerShape(
        terms=terms,
        reference=reference,
        rounds=rounds,
        first_round=first_round,
        first_budget=first_budget,
        brackets=tuple(bracket for bracket in brackets if bracket.trials),
    )


def _largest_reference(
    time: Callable[[int], float], budget: float, terms: SeerTerms
) -> tuple[int, float] | None:
    """Algorithm 2, line 2, with K = ceil(log_eta R): for each K both conditions are linear in R."""
    eta, found = float(terms.eta), None
    for rounds in range(1, _MOST_ROUNDS + 1):
        below = eta ** (rounds - 1)
        by_time = time(rounds) / terms.min_round * (eta - 1) / (eta * (1 - eta**-rounds))
        by_budget = budget / (terms.min_round * terms.min_slots * rounds)
        reference = min(eta**rounds, by_time, by_budget)
        if reference > below * (1 - _ROUNDING) if rounds == 1 else reference > below * (1 + _ROUNDING):
            found = rounds, reference
        if budget < below * terms.min_round * terms.min_slots:
            break
    return found


def _bracket_budgets(budget: float, first: float, terms: SeerTerms) -> list[tuple[int, float]]:
    """Algorithm 3: slots per trial and budget of each bracket."""
    nu, low = terms.nu, terms.min_slots
    high = math.inf if terms.max_slots is None else terms.max_slots
    count = 1
    while (count + 1) * nu**count <= budget / first * (1 + _ROUNDING):
        count += 1
    if low * nu ** (count - 1) < high:
        share = first * nu ** (count - 1)
        slots = [low * nu**i for i in range(count)]
        rest = max(0.0, budget - count * share)
        return [*((each, share) for each in slots), (int(min(high, low * nu**count)), rest)]
    slots = []
    while low * nu ** len(slots) < high:
        slots.append(low * nu ** len(slots))
    slots.append(int(high))
    return [(each, budget / len(slots)) for each in slots]


def _floor(value: float) -> int:
    return math.floor(value * (1 + _ROUNDING))
