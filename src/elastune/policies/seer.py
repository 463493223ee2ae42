"""SEER: the best model for a deadline and a budget (Dunlap et al. 2021).

Brackets with 1, 2, 4, ... slots per trial start together; every round is eta times as long as the one before
and keeps one trial of eta; the better a trial, the more slots it gets next. `seer_arithmetic` computes the
rounds, `rounds` runs them. Deviations:

- Time and money are net of boots, whole nodes, start-ups and saves, so that the limits hold. If those are
  zero the numbers are the paper's.
- `elimination: global` (default) keeps the best trials over all brackets, as many as the paper; the paper's
  rule (`bracket`) drops every trial of a bracket with fewer than eta^k of them, though the best have just
  been moved there.
- `min_round` is one iteration of the profile on the fewest slots, unless the job gives it: with the paper's
  minutes, fast trainings would be compared long after they could be.
- The paper has any number of machines. If `max_nodes` cannot hold the first round, fewer trials start, and
  `min_round` is raised if that uses more of the money.
- `spend_leftover`: rounding leaves a quarter of the budget unused. It goes into more trials, in every round
  at most as many as the paper has, then into more slots for the best ones of the later rounds.
- The best checkpoint of all trials is returned, not only of the last round.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.core.trials import Trial
from elastune.errors import InfeasibleError, InvariantError, JobError
from elastune.model.limits import tell_limits
from elastune.model.quantities import Flag, Iterations, ParsedBy, PositiveDuration, WholeEta, one_of
from elastune.policies.costs import Leftovers, RoundCost, RoundCosts, RoundTracks, affords, largest
from elastune.policies.outline import BracketOutline, Outline, outline_of
from elastune.policies.registry import PolicySetup
from elastune.policies.rounds import Cut, Rounds, RoundTrack
from elastune.policies.seer_arithmetic import SeerShape, SeerTerms, shape_seer
from elastune.wording import format_duration, time_and_money

# Budgets are tried in steps of 2 %, then the step that fits is refined.
_STEP = 0.98
_REFINEMENTS = 30
_LEAST_SHARE = 1e-3
# If the cluster cannot hold all trials at once, longer first rounds are tried, too.
_LONGER = 1.2
_ROUNDING = 1e-9


class SeerOptions:
    eta: WholeEta = 4
    nu: WholeEta = 2
    min_round: PositiveDuration | None = None  # the paper's t_min; None: from the profile
    spend_leftover: Flag = True
    elimination: Annotated[Literal["global", "bracket"], ParsedBy(one_of("global", "bracket"))] = "global"
    max_iterations: Iterations | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeerPlan:
    shape: SeerShape
    tariff: RoundCosts
    legs: tuple[RoundCost, ...]
    extra: int  # trials of the fewest slots that join the first round, paid from the leftover

    @property
    def usd(self) -> float:
        return self.tariff.price_usd([self.legs])

    @property
    def seconds(self) -> float:
        tariff = self.tariff
        return tariff.boot_s + tariff.seconds([self.legs]) + tariff.save_s


class Seer:
    """Makes the schedule and selects trials for `rounds`."""

    def __init__(self, options: SeerOptions) -> None:
        self.options = options
        self.eta = options.eta
        self.nu = options.nu
        self.spend_leftover = options.spend_leftover
        self.by_bracket = options.elimination == "bracket"
        self.plan: SeerPlan | None = None

    def schedule(self, terms: RunTerms) -> RoundTracks:
        self.plan = _plan_of(self.options, terms)
        return (self.plan.legs,)

    def find_plan(self, terms: RunTerms) -> SeerPlan:
        limits = terms.limits
        if limits.deadline_s is None and limits.budget_usd is None:
            raise JobError("seer needs a deadline, a budget, or both: it derives its rounds from them")
        tariff = RoundCosts.of(terms)
        most = self._most(terms, tariff)
        longest_s = tariff.time_left_s(limits.deadline_s, 1) if limits.deadline_s is not None else math.inf
        plan, min_round_s = None, self._min_round_s(terms, tariff)
        while min_round_s <= longest_s * (1 + _ROUNDING):
            other, crowded = self._largest(terms, tariff, most, min_round_s)
            if other is None and not crowded:
                break  # longer rounds cost no less
            if other is not None and (plan is None or _is_better(other, plan)):
                plan = other
            if not crowded or min_round_s >= longest_s:
                break
            min_round_s = min(min_round_s * _LONGER, max(min_round_s, longest_s))
        if plan is None:
            raise InfeasibleError(self._describe_least(terms, tariff))
        return self._with_leftover(terms, plan) if self.spend_leftover else plan

    def _min_round_s(self, terms: RunTerms, tariff: RoundCosts) -> float:
        return self.options.min_round or tariff.shortest_round_s(terms.gangs.min_slots)

    def _largest(
        self, terms: RunTerms, tariff: RoundCosts, most: float, min_round_s: float
    ) -> tuple[SeerPlan | None, bool]:
        """The rounds of the largest budget that, overheads included, can be paid and that the cluster holds;
        and whether a larger cluster would allow more."""
        crowded = False

        def attempt(share: float) -> SeerPlan | None:
            nonlocal crowded
            shape = self._shape(terms, tariff, most * share, min_round_s)
            if shape is None or not shape.brackets:
                return None
            if shape.slots > terms.cluster.max_nodes * terms.cluster.slots_per_node:
                crowded = True  # without listing gangs, of which there may be millions
                return None
            plan, budget = self._plan(shape, tariff), terms.limits.budget_usd
            if budget is not None and plan.usd > budget * (1 + _ROUNDING):
                return None
            if tariff.nodes_needed([plan.legs]) > terms.cluster.max_nodes:
                crowded = True
                return None
            return plan

        share, plan = 1.0, attempt(1.0)
        while plan is None and share > _LEAST_SHARE:
            share *= _STEP
            plan = attempt(share)
        if plan is None or share == 1.0:
            return plan, crowded
        low, high = share, share / _STEP
        for _ in range(_REFINEMENTS):
            middle = (low + high) / 2
            better = attempt(middle)
            low, high, plan = (low, middle, plan) if better is None else (middle, high, better)
        return plan, crowded

    def select(self, track: RoundTrack, ranked: list[Trial], state: State) -> Cut:
        if self.plan is None:
            raise InvariantError("seer has no plan; expected schedule() before select()")
        gangs = self.plan.shape.gangs(track.number)
        kept = (self._best_by_bracket(track, ranked) if self.by_bracket else ranked)[: len(gangs)]
        if not self.spend_leftover or self.by_bracket:  # other gangs than its own would leave the bracket
            return Cut(kept=kept, gangs=gangs)
        others = [trial for trial in ranked if trial not in kept]
        rest, most = Leftovers(track.legs, state), min(len(others), len(gangs))
        extra = largest(most, lambda count: rest.pays(rest.joined(gangs, count)))
        return Cut(kept=kept + others[:extra], gangs=rest.widened(rest.joined(gangs, extra), self.nu))

    def _best_by_bracket(self, track: RoundTrack, ranked: list[Trial]) -> list[Trial]:
        """Algorithm 1, line 9, read literally: each bracket keeps its own best."""
        plan, slots_of = self.plan, dict(zip(track.alive, track.gangs, strict=False))
        room = {b.slots: b.left(self.eta, track.number) for b in plan.shape.brackets} if plan else {}
        kept = []
        for trial in ranked:
            slots = slots_of.get(trial.number, 0)
            if room.get(slots, 0):
                room[slots] -= 1
                kept.append(trial)
        return kept

    def _most(self, terms: RunTerms, tariff: RoundCosts) -> float:
        """The slot seconds that the budget or, without one, the cluster allows."""
        limits, cluster = terms.limits, terms.cluster
        most = math.inf
        if limits.budget_usd is not None and cluster.slot_usd_per_s > 0.0:
            most = limits.budget_usd / cluster.slot_usd_per_s
        if limits.deadline_s is not None:
            seconds = max(0.0, tariff.time_left_s(limits.deadline_s, 1))
            most = min(most, cluster.max_nodes * cluster.slots_per_node * seconds)
        if math.isinf(most):
            raise JobError("seer needs a deadline: the nodes cost nothing, so the budget limits nothing")
        return most

    def _shape(
        self, terms: RunTerms, tariff: RoundCosts, slot_s: float, min_round_s: float
    ) -> SeerShape | None:
        deadline_s = terms.limits.deadline_s
        slots = terms.cluster.max_nodes * terms.cluster.slots_per_node
        return shape_seer(
            lambda rounds: math.inf if deadline_s is None else tariff.time_left_s(deadline_s, rounds),
            slot_s,
            SeerTerms(
                eta=self.eta,
                nu=self.nu,
                min_round=min_round_s,
                min_slots=terms.gangs.min_slots,
                max_slots=min(terms.gangs.max_slots or slots, slots),
            ),
        )

    def _plan(self, shape: SeerShape, tariff: RoundCosts) -> SeerPlan:
        legs = tuple(tariff.leg(k, shape.duration(k), shape.gangs(k)) for k in range(shape.rounds))
        return SeerPlan(shape=shape, tariff=tariff, legs=legs, extra=0)

    def _with_leftover(self, terms: RunTerms, plan: SeerPlan) -> SeerPlan:
        first = plan.legs[0]

        def with_extra(extra: int) -> SeerPlan:
            gangs = first.gangs + (terms.gangs.min_slots,) * extra
            return replace(plan, legs=(replace(first, gangs=gangs), *plan.legs[1:]), extra=extra)

        return with_extra(largest(len(first.gangs), lambda extra: affords(terms, [with_extra(extra).legs])))

    def _describe_least(self, terms: RunTerms, tariff: RoundCosts) -> str:
        """The least that would fit: one round of one trial on the fewest nodes."""
        min_round_s = self._min_round_s(terms, tariff)
        least = RoundCost(seconds=min_round_s + tariff.start_s, gangs=(terms.gangs.min_slots,))
        seconds = tariff.boot_s + least.seconds + tariff.save_s
        usd = tariff.price_usd([[least]])
        shorter = "" if self.options.min_round is None else ", or leave out search.min_round"
        return (
            f"seer: {tell_limits(terms.limits)} are not enough for one round of one "
            f"trial; with a round of {format_duration(min_round_s)}, boot, start-up and save it takes "
            f"{time_and_money(seconds, usd)}. Raise the limits{shorter}"
        )


@functools.lru_cache(maxsize=256)
def _plan_of(options: SeerOptions, terms: RunTerms) -> SeerPlan:
    """Cached, because every simulation and every replay of a run begins with it."""
    return Seer(options).find_plan(terms)


def _is_better(plan: SeerPlan, than: SeerPlan) -> bool:
    """Plans that compare trials are better than a single round; then, those that use more money."""
    return (plan.shape.rounds > 1, plan.usd) > (than.shape.rounds > 1, than.usd)


def count_trials(options: SeerOptions, terms: RunTerms) -> int:
    """Those of the first round. Raises `InfeasibleError` and `JobError` as the schedule does."""
    return len(_plan_of(options, terms).legs[0].gangs)


def outline(options: SeerOptions, terms: RunTerms) -> Outline:
    plan = _plan_of(options, terms)
    brackets = tuple(
        BracketOutline(
            slots_per_trial=bracket.slots,
            trials=bracket.trials,
            budget_usd=bracket.budget * terms.cluster.slot_usd_per_s,
            slot_seconds=bracket.budget,
        )
        for bracket in plan.shape.brackets
    )
    return replace(
        outline_of(terms, [plan.legs]),
        brackets=brackets,
        extra_trials=plan.extra,
        spends_leftover=options.spend_leftover,
        first_round_s=plan.shape.first_round,
    )


def create(setup: PolicySetup) -> Rounds:
    seer = Seer(setup.read(SeerOptions))
    return Rounds(seer.schedule, seer.select, max_iterations=seer.options.max_iterations)
