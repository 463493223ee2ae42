"""SEER's plan: which rounds fit the limits, overheads included.

`PaperPlanner` keeps to the letter. `SeerPlanner` mends what the letter leaves to chance:

- Before the last round all trials have the fewest slots, where a slot does most, and there are more of them.
- If the cluster cannot hold the first round, its trials take turns (`waves`), or there are fewer rounds:
  whatever starts most trials, up to as many as on a cluster of any size.
- So the best trial has at least as many slots in a round as in the round before; to the letter, brackets of
  which the floor leaves no trial for the last round take them from it.
- Money that rounding leaves over is shared: half for more trials in the first round, half for the last one,
  which gets more trials and more slots for the best. What then is left goes to the rounds between.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from elastune.core.terms import RunTerms
from elastune.errors import InfeasibleError, JobError
from elastune.model.limits import describe_limits
from elastune.policies.costs import RoundCost, RoundCosts, affords, largest, widen
from elastune.policies.seer_arithmetic import SeerShape, SeerTerms, shape_seer
from elastune.wording import format_duration, time_and_money

# Budgets are tried in steps of 2 %, then the step that fits is refined.
_STEP = 0.98
_REFINEMENTS = 30
_LEAST_SHARE = 1e-3
# If the cluster cannot hold all trials at once, the paper's planner tries longer first rounds, too.
_LONGER = 1.2
# Fewer rounds than the paper's by so many are tried.
_FEWER_ROUNDS = 2
# So much of the paper's number of trials is as good as all of it: fewer waves leave more time to the winner.
_ENOUGH = 0.95
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class SeerPlan:
    shape: SeerShape
    tariff: RoundCosts
    legs: tuple[RoundCost, ...]
    extra: int = 0  # trials of the fewest slots that join the first round, paid from the leftover

    @property
    def trials(self) -> int:
        return sum(len(leg.gangs) for leg in self.legs if leg.draws)

    @property
    def usd(self) -> float:
        return self.tariff.price_usd([self.legs])

    @property
    def seconds(self) -> float:
        tariff = self.tariff
        return tariff.boot_s + tariff.seconds([self.legs]) + tariff.save_s


@dataclass(kw_only=True)
class PaperPlanner:
    """The rounds of the largest budget that, overheads included, can be paid and that the cluster holds."""

    terms: RunTerms
    eta: float
    nu: float
    min_round: float | None
    spend_leftover: bool
    tariff: RoundCosts = field(init=False)

    def __post_init__(self) -> None:
        self.tariff = RoundCosts.of(self.terms)

    def find(self) -> SeerPlan:
        limits = self.terms.limits
        if not limits.are_set:
            raise JobError("seer needs a deadline, a budget, or both: it derives its rounds from them")
        plan = self._best()
        if plan is None:
            raise InfeasibleError(self._describe_least())
        return self._with_leftover(plan) if self.spend_leftover else plan

    def _best(self) -> SeerPlan | None:
        most, longest_s = self._most(), self._longest_s()
        plan, min_round_s = None, self.min_round_s
        while min_round_s <= longest_s * (1 + _ROUNDING):
            other, crowded = self._largest(most, functools.partial(self._shape, min_round_s=min_round_s))
            if other is None and not crowded:
                break  # longer rounds cost no less
            if other is not None and (plan is None or _is_better(other, plan)):
                plan = other
            if not crowded or min_round_s >= longest_s:
                break
            min_round_s = min(min_round_s * _LONGER, max(min_round_s, longest_s))
        return plan

    @property
    def min_round_s(self) -> float:
        return self.min_round or self.tariff.shortest_round_s(self.terms.gangs.min_slots)

    def _longest_s(self) -> float:
        deadline_s = self.terms.limits.deadline_s
        return math.inf if deadline_s is None else self.tariff.time_left_s(deadline_s, 1)

    def _most(self) -> float:
        """The slot seconds that the budget or, without one, the cluster allows."""
        limits, cluster = self.terms.limits, self.terms.cluster
        most = math.inf
        if limits.budget_usd is not None and cluster.slot_usd_per_s > 0.0:
            most = limits.budget_usd / cluster.slot_usd_per_s
        if limits.deadline_s is not None:
            seconds = max(0.0, self._longest_s())
            most = min(most, cluster.max_nodes * cluster.slots_per_node * seconds)
        if math.isinf(most):
            raise JobError("seer needs a deadline: the nodes cost nothing, so the budget limits nothing")
        return most

    def _largest(
        self, most: float, shape_of: Callable[[float], SeerShape | None], *, holds_any: bool = False
    ) -> tuple[SeerPlan | None, bool]:
        """The plan of the most slot seconds that fits; and whether a larger cluster would allow more.
        `holds_any`: as if it were larger."""
        crowded = False

        def attempt(share: float) -> SeerPlan | None:
            nonlocal crowded
            shape, cluster = shape_of(most * share), self.terms.cluster
            if shape is None or not shape.brackets:
                return None
            if not holds_any and shape.slots > shape.waves * cluster.max_nodes * cluster.slots_per_node:
                crowded = True  # without listing gangs, of which there may be millions
                return None
            plan, budget = self._plan(shape), self.terms.limits.budget_usd
            if budget is not None and plan.usd > budget * (1 + _ROUNDING):
                return None
            if not holds_any and self.tariff.nodes_needed([plan.legs]) > cluster.max_nodes:
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

    def _shape(
        self, slot_s: float, min_round_s: float, *, rounds: int | None = None, waves: int = 1
    ) -> SeerShape | None:
        deadline_s, gangs = self.terms.limits.deadline_s, self.terms.gangs
        slots = self.terms.cluster.max_nodes * self.terms.cluster.slots_per_node

        def time_s(count: int) -> float:
            legs = count + waves - 1
            return math.inf if deadline_s is None else self.tariff.time_left_s(deadline_s, legs)

        seer = SeerTerms(
            eta=self.eta,
            nu=self.nu,
            min_round=min_round_s,
            min_slots=gangs.min_slots,
            max_slots=min(gangs.max_slots or slots, slots),
        )
        return shape_seer(time_s, slot_s, seer, rounds=rounds, waves=waves)

    def _gangs(self, shape: SeerShape, number: int) -> tuple[int, ...]:
        return shape.gangs(number)

    def _plan(self, shape: SeerShape) -> SeerPlan:
        first = self._gangs(shape, 0)
        legs = [
            self.tariff.leg(wave, shape.duration(0), first[wave :: shape.waves], draws=True)
            for wave in range(shape.waves)
        ]
        legs += [self.tariff.leg(k, shape.duration(k), self._gangs(shape, k)) for k in range(1, shape.rounds)]
        return SeerPlan(shape=shape, tariff=self.tariff, legs=tuple(legs))

    def _with_extra(self, plan: SeerPlan, extra: int) -> SeerPlan:
        """More trials in the first round, in its waves by turns."""
        least, waves = self.terms.gangs.min_slots, plan.shape.waves
        legs = list(plan.legs)
        for wave in range(waves):
            more = (extra + waves - 1 - wave) // waves
            legs[wave] = replace(legs[wave], gangs=legs[wave].gangs + (least,) * more)
        return replace(plan, legs=tuple(legs), extra=plan.extra + extra)

    def _with_leftover(self, plan: SeerPlan) -> SeerPlan:
        return self._with_extra(
            plan, largest(plan.trials, lambda extra: self._fits(self._with_extra(plan, extra)))
        )

    def _fits(self, plan: SeerPlan) -> bool:
        return affords(self.terms, [plan.legs])

    def _describe_least(self) -> str:
        """The least that would fit: one round of one trial on the fewest nodes."""
        tariff, min_round_s = self.tariff, self.min_round_s
        least = RoundCost(seconds=min_round_s + tariff.start_s, gangs=(self.terms.gangs.min_slots,))
        seconds = tariff.boot_s + least.seconds + tariff.save_s
        usd = tariff.price_usd([[least]])
        shorter = "" if self.min_round is None else ", or leave out search.min_round"
        return (
            f"seer: {describe_limits(self.terms.limits)} are not enough for one round of one "
            f"trial; with a round of {format_duration(min_round_s)}, boot, start-up and save it takes "
            f"{time_and_money(seconds, usd)}. Raise the limits{shorter}"
        )


def _is_better(plan: SeerPlan, than: SeerPlan) -> bool:
    """Plans that compare trials are better than a single round; then, those that use more money."""
    return (plan.shape.rounds > 1, plan.usd) > (than.shape.rounds > 1, than.usd)


@dataclass(kw_only=True)
class SeerPlanner(PaperPlanner):
    least_waves: int = 1

    def _best(self) -> SeerPlan | None:
        most = self._most()
        shape_of = functools.partial(self._shape, min_round_s=self.min_round_s)
        paper, _ = self._largest(most, shape_of, holds_any=True)
        if paper is None:
            return None
        if self.least_waves == 1 and self.tariff.nodes_needed([paper.legs]) <= self.terms.cluster.max_nodes:
            return paper
        found = [plan for plan in self._candidates(most, paper.shape.rounds) if plan is not None]
        learning = [plan for plan in found if plan.shape.waves >= self.least_waves]
        best = max(learning or found, key=lambda plan: self._score(plan, paper), default=None)
        return None if best is None else _with_trials(best, paper.trials)

    def _candidates(self, most: float, rounds: int) -> Iterator[SeerPlan | None]:
        waves = max(math.ceil(self.eta), self.least_waves)
        for count in {rounds, *range(max(1, rounds - _FEWER_ROUNDS), rounds), 1}:
            for turns in range(1, waves + 1):
                shape_of = functools.partial(
                    self._shape, min_round_s=self.min_round_s, rounds=count, waves=turns
                )
                plan, crowded = self._largest(most, shape_of)
                yield plan
                if not crowded and turns >= self.least_waves:
                    break

    def _score(self, plan: SeerPlan, paper: SeerPlan) -> tuple[bool, float, float, float]:
        """Most trials; of equally many, most time for the last round; then, most of the money."""
        trials = min(plan.trials, _ENOUGH * paper.trials)
        last_s = plan.legs[-1].seconds / self.tariff.seconds([plan.legs])
        return plan.shape.rounds > 1, trials, last_s, plan.usd

    def _gangs(self, shape: SeerShape, number: int) -> tuple[int, ...]:
        """The fewest slots for each trial; in the last round those of the brackets that reach it, and the
        slots of wider brackets are those of the widest of these."""
        eta, last, least = shape.terms.eta, shape.rounds - 1, shape.terms.min_slots
        if number < last:
            return (least,) * max(1, int(shape.slots / least / float(eta) ** number * (1 + _ROUNDING)))
        lasting = [bracket for bracket in shape.brackets if bracket.left(eta, last)] or shape.brackets[:1]
        widest = lasting[-1].slots
        trials = {bracket.slots: bracket.exact for bracket in lasting}
        wider = [bracket for bracket in shape.brackets if bracket.slots > widest]
        trials[widest] += sum(bracket.trials * bracket.slots for bracket in wider) // widest
        left = {slots: replace(lasting[0], exact=count).left(eta, number) for slots, count in trials.items()}
        gangs = tuple(slots for slots, count in reversed(left.items()) for _ in range(count))
        return gangs or (least,)

    def _with_leftover(self, plan: SeerPlan) -> SeerPlan:
        budget = self.terms.limits.budget_usd
        most_usd = math.inf if budget is None else (plan.usd + budget) / 2

        def pays_half(extra: int) -> bool:
            more = self._with_extra(plan, extra)
            return self._fits(more) and more.usd <= most_usd

        plan = self._with_extra(plan, largest(plan.trials, pays_half))
        for number in range(len(plan.legs) - 1, plan.shape.waves - 1, -1):
            plan = self._filled(plan, number)
        return super()._with_leftover(plan)

    def _filled(self, plan: SeerPlan, number: int) -> SeerPlan:
        """More trials in this round, at most twice as many, then more slots for the best."""
        least, before = self.terms.gangs.min_slots, plan.legs[number - 1]
        gangs = plan.legs[number].gangs
        cluster = self.terms.cluster

        def fits(sizes: tuple[int, ...]) -> bool:
            return self._fits(_with_gangs(plan, number, sizes))

        trials = plan.trials if before.draws else len(before.gangs)
        most = min(len(gangs), max(0, trials - len(gangs)))
        gangs += (least,) * largest(most, lambda extra: fits(gangs + (least,) * extra))
        widest = self.terms.gangs.max_slots or cluster.max_nodes * cluster.slots_per_node
        if number < len(plan.legs) - 1:  # the winner does not lose slots afterwards
            widest = plan.legs[number + 1].gangs[0]
        wider = widen(gangs, self.nu, widest, self.tariff.profile.speedup, fits)
        return _with_gangs(plan, number, wider)


def _with_trials(plan: SeerPlan, most: int) -> SeerPlan:
    """At most so many in the first round; the others' money is left over."""
    waves = plan.shape.waves
    turns = [
        replace(leg, gangs=leg.gangs[: max(1, (most + waves - 1 - wave) // waves)])
        for wave, leg in enumerate(plan.legs[:waves])
    ]
    return replace(plan, legs=(*turns, *plan.legs[waves:]))


def _with_gangs(plan: SeerPlan, number: int, gangs: tuple[int, ...]) -> SeerPlan:
    leg = replace(plan.legs[number], gangs=gangs)
    return replace(plan, legs=(*plan.legs[:number], leg, *plan.legs[number + 1 :]))
