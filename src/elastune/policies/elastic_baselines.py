"""Baselines of SEER (section 6.3), net of boots, whole nodes, start-ups and saves, as SEER here.

`e-grid` explores for half of the time: as many trials as the budget pays for, with the fewest slots. Then the
best trains alone with the most slots. If the budget pays for no trial at all, the winner gets fewer slots
and, after that, both halves get shorter.

`e-hyperband` runs all brackets of Hyperband side by side; the resource is time on the fewest slots. R is the
longest time that ends by the deadline and whose brackets the budget pays for. Bracket s starts
`ceil((s_max + 1) / (s + 1) * eta^s)` trials and compares them after `R * eta^-s`, ..., `R`. Hyperband repeats
its brackets; here each one starts as many times the trials as the budget pays for (started once, 94 % of a
budget of 64 slots for 15 iterations stayed unused).
"""

from __future__ import annotations

import math

from elastune.core.terms import RunTerms
from elastune.errors import InfeasibleError, JobError
from elastune.model.quantities import Eta, Iterations, PositiveDuration
from elastune.policies.costs import RoundCost, RoundCosts, RoundTracks, affords, largest
from elastune.policies.outline import Outline, outline_of
from elastune.policies.registry import PolicySetup
from elastune.policies.round_track import keep_best
from elastune.policies.rounds import Rounds
from elastune.wording import format_duration

# The winner's slots in SEER's paper, unless stated otherwise.
_MOST_SLOTS = 4
_GRID_STEP = 0.97
_SHORTEST_S = 1e-3
_HYPERBAND_STEP = 0.99
# Trials grow by this fraction of what Hyperband starts.
_PARTS = 8
_ROUNDING = 1e-9


class EGridOptions:
    max_iterations: Iterations | None = None


def schedule(terms: RunTerms) -> RoundTracks:
    deadline_s, cluster, least = terms.limits.deadline_s, terms.cluster, terms.gangs.min_slots
    if deadline_s is None:
        raise JobError("e-grid needs a deadline: it divides the time into halves. Add deadline to the job")
    tariff = RoundCosts.of(terms)
    half_s = tariff.time_left_s(deadline_s, 2) / 2
    slots = cluster.max_nodes * cluster.slots_per_node
    most = min(terms.gangs.max_slots or max(_MOST_SLOTS, least), slots)

    def legs(trials: int) -> tuple[RoundCost, ...]:
        return tariff.leg(0, half_s, (least,) * trials), tariff.leg(1, half_s, (most,))

    while half_s > max(_SHORTEST_S, tariff.profile.iteration.mean):
        trials = largest(slots // least, lambda count: affords(terms, [legs(count)]))
        if trials:
            return (legs(trials),)
        if most > least:
            most = max(least, most // 2)
        else:
            half_s *= _GRID_STEP
    raise InfeasibleError(
        "e-grid: the limits leave no room for one iteration of one trial in each half; boots, start-ups and "
        "saves take all of the time or the money. Raise the deadline or the budget"
    )


def outline_e_grid(_: EGridOptions, terms: RunTerms) -> Outline:
    return outline_of(terms, schedule(terms))


def create_e_grid(setup: PolicySetup) -> Rounds:
    return Rounds(schedule, keep_best, max_iterations=setup.read(EGridOptions).max_iterations)


class EHyperbandOptions:
    eta: Eta = 4
    min_round: PositiveDuration | None = None  # None: from the profile, as in SEER
    max_iterations: Iterations | None = None


class EHyperband:
    def __init__(self, options: EHyperbandOptions) -> None:
        self.eta = float(options.eta)
        self.min_round_s = options.min_round

    def schedule(self, terms: RunTerms) -> RoundTracks:
        deadline_s = terms.limits.deadline_s
        if deadline_s is None:
            raise JobError("e-hyperband needs a deadline: its resource is time. Add deadline to the job")
        tariff = RoundCosts.of(terms)
        longest_s = tariff.time_left_s(deadline_s, 1)
        min_round_s = self.min_round_s or tariff.shortest_round_s(terms.gangs.min_slots)
        while longest_s >= min_round_s * (1 - _ROUNDING):
            brackets = math.floor(math.log(longest_s / min_round_s * (1 + _ROUNDING), self.eta)) + 1
            while brackets > 1 and self._is_crowded(longest_s, brackets, terms, tariff):
                brackets -= 1
            tracks = self._tracks(longest_s, brackets, terms, tariff)
            in_time = tariff.boot_s + tariff.seconds(tracks) + tariff.save_s <= deadline_s * (1 + _ROUNDING)
            if in_time and affords(terms, tracks):
                return self._repeated(longest_s, brackets, terms, tariff)
            longest_s *= _HYPERBAND_STEP
        shorter = "" if self.min_round_s is None else ", or lower search.min_round"
        raise InfeasibleError(
            "e-hyperband: the limits leave no room for one bracket of one round of "
            f"{format_duration(min_round_s)}. Raise the deadline or the budget{shorter}"
        )

    def _is_crowded(self, longest_s: float, brackets: int, terms: RunTerms, tariff: RoundCosts) -> bool:
        needed = tariff.nodes_needed(self._tracks(longest_s, brackets, terms, tariff))
        return needed > terms.cluster.max_nodes

    def _repeated(self, longest_s: float, brackets: int, terms: RunTerms, tariff: RoundCosts) -> RoundTracks:
        def tracks(parts: int) -> RoundTracks:
            return self._tracks(longest_s, brackets, terms, tariff, parts / _PARTS)

        most = terms.cluster.max_nodes * terms.cluster.slots_per_node * _PARTS
        return tracks(max(_PARTS, largest(most, lambda parts: affords(terms, tracks(parts)))))

    def _tracks(
        self, longest_s: float, brackets: int, terms: RunTerms, tariff: RoundCosts, times: float = 1.0
    ) -> RoundTracks:
        eta, slots, most = self.eta, terms.gangs.min_slots, brackets - 1
        tracks = []
        for s in range(most, -1, -1):
            trials = math.ceil(times * (most + 1) / (s + 1) * eta**s - _ROUNDING)
            ends = [longest_s / eta ** (s - k) for k in range(s + 1)]
            rounds = [end - begin for begin, end in zip([0.0, *ends], ends, strict=False)]
            gangs = [(slots,) * max(1, int(trials / eta**k * (1 + _ROUNDING))) for k in range(s + 1)]
            tracks.append(tuple(tariff.leg(k, rounds[k], gangs[k]) for k in range(s + 1)))
        return tuple(tracks)


def outline_e_hyperband(options: EHyperbandOptions, terms: RunTerms) -> Outline:
    return outline_of(terms, EHyperband(options).schedule(terms))


def create_e_hyperband(setup: PolicySetup) -> Rounds:
    options = setup.read(EHyperbandOptions)
    return Rounds(EHyperband(options).schedule, keep_best, max_iterations=options.max_iterations)
