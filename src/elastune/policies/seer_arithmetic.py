"""SEER's arithmetic (Dunlap et al. 2021, Algorithms 2 and 3): rounds and brackets for a time and a budget.

Time in any unit, the budget in slots times that unit; `min_round` is the paper's t_min, `min_slots` and
`max_slots` its p_min and p_max. Every number is the paper's, with two corrections: the example's first
bracket budget of 17.142 is an error (Algorithm 3 gives 34.286), and "remove the lowest floor(N / eta^k)"
means to keep that many. The time may depend on the number of rounds, because each one has overheads.

Eta and nu are real numbers above 1: slots are rounded down, brackets of equally many slots are one. Beyond
the paper, the number of rounds can be given, and the trials of the first round may take turns (`waves`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

# 8.000000000000002 trials are eight, and 7.999999999999998 are eight as well.
_ROUNDING = 1e-9
# An end for the loop over rounds, if eta is close to 1.
_MOST_ROUNDS = 1_000
# An end for the loop over brackets, if nu is close to 1.
_MOST_BRACKETS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SeerTerms:
    eta: float = 4
    nu: float = 2
    min_round: float = 1.0
    min_slots: int = 1
    max_slots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeerBracket:
    """So many trials of `slots` slots each in the first round; `budget` in slots times time."""

    slots: int
    exact: float  # trials before they are rounded down
    budget: float

    @property
    def trials(self) -> int:
        return _floor(self.exact)

    def left(self, eta: float, rounds: int) -> int:
        """Trials of this bracket after so many rounds. With an eta of 1.5, one of 2.25 is left after two;
        rounded down before, none would be. If eta is a whole number it is the same."""
        return _floor(self.exact / float(eta) ** rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeerShape:
    """`reference` is the paper's R*, `first_budget` its B_0. Brackets without trials are left out.

    `waves`: in so many turns the trials of the first round train, each for `first_round`.
    """

    terms: SeerTerms
    reference: float
    rounds: int
    first_round: float
    first_budget: float
    brackets: tuple[SeerBracket, ...]
    waves: int = 1

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


def shape_seer(
    time: float | Callable[[int], float],
    budget: float,
    terms: SeerTerms,
    *,
    rounds: int | None = None,
    waves: int = 1,
) -> SeerShape | None:
    """SEER's rounds and brackets for this time and budget. None: not enough for one round of one trial.

    `rounds`: so many, instead of as many as the paper makes.
    """
    time_of = time if callable(time) else lambda _: float(time)
    if rounds is None:
        found = _largest_reference(time_of, budget, terms)
    else:
        found = _reference_of(rounds, waves, time_of(rounds), budget, terms)
    if found is None:
        return None
    rounds, reference = found
    first_round = terms.min_round * reference / float(terms.eta) ** (rounds - 1)
    first_budget = terms.min_slots * terms.min_round * reference * rounds
    brackets = [
        SeerBracket(slots=slots, exact=share / (rounds * first_round * slots), budget=share)
        for slots, share in _bracket_budgets(budget, first_budget, terms)
    ]
    return SeerShape(
        terms=terms,
        reference=reference,
        rounds=rounds,
        first_round=first_round,
        first_budget=first_budget,
        brackets=tuple(bracket for bracket in brackets if bracket.trials),
        waves=waves,
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
        if min(time(rounds), budget / terms.min_slots) < below * terms.min_round:
            break
    return found


def _reference_of(
    rounds: int, waves: int, time: float, budget: float, terms: SeerTerms
) -> tuple[int, float] | None:
    """The largest R with so many rounds, the first of them in `waves` turns. None: a turn would be shorter
    than `min_round`."""
    eta = float(terms.eta)
    last = eta ** (rounds - 1)
    lasting = (waves - 1) / last + eta * (1 - eta**-rounds) / (eta - 1)
    by_budget = budget / (terms.min_round * terms.min_slots * rounds)
    reference = min(time / terms.min_round / lasting, by_budget)
    return (rounds, reference) if reference >= last * (1 - _ROUNDING) else None


def _bracket_budgets(budget: float, first: float, terms: SeerTerms) -> list[tuple[int, float]]:
    """Algorithm 3: slots per trial and budget of each bracket."""
    nu, low = terms.nu, terms.min_slots
    high = math.inf if terms.max_slots is None else terms.max_slots
    count = 1
    while count < _MOST_BRACKETS and (count + 1) * nu**count <= budget / first * (1 + _ROUNDING):
        count += 1
    if low * nu ** (count - 1) < high:
        share = first * nu ** (count - 1)
        rest = max(0.0, budget - count * share)
        wider = min(high, low * nu**count)
        return _merged([*((low * nu**i, share) for i in range(count)), (wider, rest)])
    sizes: list[float] = []
    while low * nu ** len(sizes) < high:
        sizes.append(low * nu ** len(sizes))
    sizes.append(high)
    return _merged([(each, budget / len(sizes)) for each in sizes])


def _merged(brackets: list[tuple[float, float]]) -> list[tuple[int, float]]:
    """In whole slots; brackets of equally many become one."""
    budgets: dict[int, float] = {}
    for size, share in brackets:
        slots = _floor(size)
        budgets[slots] = budgets.get(slots, 0.0) + share
    return list(budgets.items())


def _floor(value: float) -> int:
    return math.floor(value * (1 + _ROUNDING))
