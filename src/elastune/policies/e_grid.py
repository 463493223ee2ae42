"""Elastic grid search, a baseline of SEER (section 6.3): explore for half of the time, exploit for the rest.

As many trials as the budget pays for train with the fewest slots; then the best of them trains alone with the
most. Net of boots, whole nodes, start-ups and saves, as SEER here. Where the budget pays for no trial at all,
the winner gets fewer slots and, after that, both halves are shorter.
"""

from __future__ import annotations

from elastune.core import RunTerms
from elastune.errors import InfeasibleError, JobError
from elastune.policies.affording import affords, largest
from elastune.policies.outline import Outline, outline_of
from elastune.policies.rounds import Rounds, Schedule, keep_best
from elastune.policies.setup import PolicySetup
from elastune.policies.tariff import Leg, Tariff
from elastune.quantities import Iterations

# What SEER's authors gave the winner where nothing else was said.
_MOST_SLOTS = 4
_STEP = 0.97
_SHORTEST_S = 1e-3


class EGridOptions:
    max_iterations: Iterations | None = None


def schedule(terms: RunTerms) -> Schedule:
    deadline_s, cluster, least = terms.limits.deadline_s, terms.cluster, terms.gangs.min_slots
    if deadline_s is None:
        raise JobError("e-grid needs a deadline: it divides the time into two halves")
    tariff = Tariff.of(terms)
    half_s = tariff.time_left_s(deadline_s, 2) / 2
    slots = cluster.max_nodes * cluster.slots_per_node
    most = min(terms.gangs.max_slots or max(_MOST_SLOTS, least), slots)

    def legs(trials: int) -> tuple[Leg, ...]:
        return tariff.leg(0, half_s, (least,) * trials), tariff.leg(1, half_s, (most,))

    while half_s > max(_SHORTEST_S, tariff.profile.iteration.mean):
        trials = largest(slots // least, lambda count: affords(terms, [legs(count)]))
        if trials:
            return Schedule(tracks=(legs(trials),))
        if most > least:
            most = max(least, most // 2)
        else:
            half_s *= _STEP
    raise InfeasibleError(
        "e-grid: the limits leave no room for one iteration of one trial in each half; boots, start-ups and "
        "saves take all of the time or the money. Give more of what is short"
    )


def outline(_: EGridOptions, terms: RunTerms) -> Outline:
    return outline_of(terms, schedule(terms).tracks)


def create(setup: PolicySetup) -> Rounds:
    return Rounds(schedule, keep_best, max_iterations=setup.read(EGridOptions).max_iterations)
