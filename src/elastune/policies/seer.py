"""SEER: the best model for a deadline and a budget (Dunlap et al. 2021).

Brackets with 1, 2, 4, ... slots per trial start together; every round is eta times as long as the one before
and keeps one trial of eta; the better a trial, the more slots it gets next. `seer_arithmetic` computes the
rounds, `seer_plan` fits them to the limits, `rounds` runs them. Deviations:

- Time and money are net of boots, whole nodes, start-ups and saves, so that the limits hold. If those are
  zero the numbers are the paper's.
- `min_round` is one iteration of the profile on the fewest slots, unless the job gives it: with the paper's
  minutes, fast trainings would be compared long after they could be.
- The paper has any number of machines. If `max_nodes` cannot hold the first round, fewer trials start, and
  `min_round` is raised if that uses more of the money.
- The best checkpoint of all trials is returned, not only of the last round.

With `letter: true` that is all. By default, also:

- `elimination: global` keeps the best trials over all brackets, as many as the paper; the paper's rule
  (`bracket`) drops every trial of a bracket with fewer than eta^k of them, though the best have just been
  moved there.
- Eliminated trials are paused. They replace finalists that fail or finish, and compete again after each
  round; the last round lasts until the limits. Where models hop they are stopped, and the rounds are planned
  as in the paper.
- The winner never loses slots, trials of the first round take turns on a small cluster, and
  `spend_leftover` spends what rounding leaves over (`seer_plan`).
- With a sampler that learns the first round has four `waves`, so that it can learn from the waves before.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Annotated, Literal

from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.core.trials import Trial
from elastune.errors import InvariantError
from elastune.model.quantities import Count, Eta, Flag, Iterations, ParsedBy, PositiveDuration, one_of
from elastune.policies.costs import Leftovers, RoundTracks, largest
from elastune.policies.outline import BracketOutline, Outline, outline_of
from elastune.policies.registry import PolicySetup
from elastune.policies.resuming_rounds import ResumingRounds
from elastune.policies.round_track import Cut, RoundTrack
from elastune.policies.rounds import Rounds
from elastune.policies.seer_plan import PaperPlanner, SeerPlan, SeerPlanner

# Of a first round from which a sampler learns.
LEARNING_WAVES = 4


class SeerOptions:
    letter: Flag = False  # the paper to the letter, whatever the switches below say
    eta: Eta = 4
    nu: Eta = 2
    min_round: PositiveDuration | None = None  # the paper's t_min; None: from the profile
    spend_leftover: Flag = True
    elimination: Annotated[Literal["global", "bracket"], ParsedBy(one_of("global", "bracket"))] = "global"
    waves: Count | None = None  # of the first round, at least; None: as many as the sampler needs
    max_iterations: Iterations | None = None

    @property
    def learns(self) -> bool:
        """Whether the sampler does."""
        return False


class Seer:
    """Makes the schedule and selects trials for `rounds`."""

    def __init__(self, options: SeerOptions) -> None:
        self.options = options
        self.letter = options.letter
        self.eta = float(options.eta)
        self.nu = float(options.nu)
        self.spend_leftover = options.spend_leftover and not self.letter
        self.by_bracket = options.elimination == "bracket" or self.letter
        self.waves = options.waves or (LEARNING_WAVES if options.learns else 1)
        self.plan: SeerPlan | None = None

    def schedule(self, terms: RunTerms) -> RoundTracks:
        self.plan = _plan_of(self.options, terms)
        return (self.plan.legs,)

    def find_plan(self, terms: RunTerms) -> SeerPlan:
        """Raises `InfeasibleError` and `JobError`."""
        # A model that hops and is paused within an epoch cannot be resumed there: nothing is paused then.
        to_letter = self.by_bracket or terms.data is not None
        make = PaperPlanner if to_letter else functools.partial(SeerPlanner, least_waves=self.waves)
        return make(
            terms=terms,
            eta=self.eta,
            nu=self.nu,
            min_round=self.options.min_round,
            spend_leftover=self.spend_leftover,
        ).find()

    def select(self, track: RoundTrack, ranked: list[Trial], state: State) -> Cut:
        if self.plan is None:
            raise InvariantError("seer has no plan; expected schedule() before select()")
        gangs = track.legs[0].gangs
        kept = (self._best_by_bracket(track, ranked) if self.by_bracket else ranked)[: len(gangs)]
        if self.by_bracket:  # other gangs than its own would leave the bracket
            return Cut(kept=kept, gangs=gangs)
        rest = Leftovers(track.legs, state)
        gangs = _with_winner(track, ranked[0], gangs or rest.joined((), 1), rest)
        if not self.spend_leftover:
            return Cut(kept=ranked[: len(gangs)], gangs=gangs)
        most = min(len(ranked) - len(gangs), len(gangs))
        extra = largest(most, lambda count: rest.pays(rest.joined(gangs, count)))
        gangs = rest.widened(rest.joined(gangs, extra), self.nu)
        return Cut(kept=ranked[: len(gangs)], gangs=gangs)

    def _best_by_bracket(self, track: RoundTrack, ranked: list[Trial]) -> list[Trial]:
        """Algorithm 1, line 9, read literally: each bracket keeps its own best."""
        plan, slots_of = self.plan, track.slots_of
        room = {b.slots: b.left(self.eta, track.number) for b in plan.shape.brackets} if plan else {}
        kept = []
        for trial in ranked:
            slots = slots_of.get(trial.number, 0)
            if room.get(slots, 0):
                room[slots] -= 1
                kept.append(trial)
        return kept


def _with_winner(track: RoundTrack, best: Trial, gangs: tuple[int, ...], rest: Leftovers) -> tuple[int, ...]:
    """The best trial keeps the slots that it has, if need be at the expense of the last ones."""
    present = track.slots_of.get(best.number, 0)
    if present <= gangs[0]:
        return gangs
    wider = (present, *gangs[1:])
    return wider[: max(1, largest(len(wider), lambda count: not count or rest.pays(wider[:count])))]


@functools.lru_cache(maxsize=256)
def _plan_of(options: SeerOptions, terms: RunTerms) -> SeerPlan:
    """Cached, because every simulation and every replay of a run begins with it."""
    return Seer(options).find_plan(terms)


def outline(options: SeerOptions, terms: RunTerms) -> Outline:
    """Brackets are shown if the first round begins with them, as in the paper."""
    plan = _plan_of(options, terms)
    begun = plan.shape.gangs(0)
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
        brackets=brackets if plan.legs[0].gangs[: len(begun)] == begun else (),
        extra_trials=plan.extra,
        spends_leftover=options.spend_leftover and not options.letter,
        first_round_s=plan.shape.first_round,
    )


def create(setup: PolicySetup) -> Rounds:
    seer = Seer(setup.read(SeerOptions))
    most = seer.options.max_iterations
    kind = Rounds if seer.by_bracket else ResumingRounds
    return kind(seer.schedule, seer.select, max_iterations=most)
