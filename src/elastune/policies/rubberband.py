"""RubberBand's executor (section 5): follows a plan stage by stage, and plans again when the run leaves it.

A stage trains when all its nodes are up; its trials save at the end and meet at a barrier; the best go on.
Gangs that have the same size in the next stage wait there and go on in their processes. Nodes that the next
stage does not hold are released, chosen by the placement controller so that few gangs move. Several specs
(Hyperband) run side by side, each on a pool of its own.

It plans again from the present state when nodes are missing (lost, refused, vetoed), when the coming stages
no longer fit the time or money left (`bracket.find_plan` decides which limit gives way), and between stages
when training is faster or slower than measured or the trials that go on differ in speed. New plans use the
observed speed. Deviation from the paper:
while more nodes boot for a stage, its running trials go on, and so do gangs that have stayed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from elastune.core.cluster_manager import RETRY
from elastune.core.commands import Ending
from elastune.core.events import (
    AnyEvent,
    BarrierPassed,
    ConfigAdded,
    GangStarted,
    NodesRefused,
    Progressed,
    Resumed,
    RunExtended,
    TimerFired,
    TrialsSampled,
    TrialStopAsked,
)
from elastune.core.limits import DEADLINE_CALL
from elastune.core.observed_speed import SpeedObservation
from elastune.core.policy import Policy, Progress, Upcoming, Vetoed
from elastune.core.state import State
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.errors import JobError
from elastune.model.billing import bills_nodes
from elastune.model.profile import TrialSpeed
from elastune.planning.problem import Problem
from elastune.planning.quote import Quote
from elastune.policies.bracket import (
    Bracket,
    BracketStep,
    Planner,
    RemainingWork,
    find_plan,
    limits_left,
    rest_of,
)
from elastune.policies.extending import refuse_complete, refuse_fixed
from elastune.policies.registry import PolicySetup
from elastune.wording import format_duration, format_usd, time_and_money

# A stage that ends just at its limit is not late: the tolerance covers rounding and short delays.
_PATIENCE = 0.002
# Plan again if iterations differ from the plan by this share, and by this many standard deviations.
_SURPRISE = 0.1
_SURPRISE_SDS = 3.0
_HARDLY = 0.01
# Trials whose speeds differ by less than this (root mean square) are planned as the quote has planned them.
ALIKE = 0.05
# Most events. They only matter here if nodes are missing.
_FREQUENT = (Progressed, GangStarted)


class Reason(NamedTuple):
    """Why the rest is planned again."""

    text: str
    is_usual: bool = False  # at every barrier: worth a note only if the plan changes


class RubberBand(Policy):
    """`quote` is the promised plan; `planner` finds others for the rest."""

    def __init__(self, quote: Quote, planner: Planner) -> None:
        self.problem = quote.problem
        self.promised_usd = quote.cost_quantile
        self.planner = planner
        self.cap: int | None = None  # nodes that are available, after a refusal
        self.planned_for: tuple[object, ...] = ()
        self.too_slow = False  # the present plan is the best there is, and misses the deadline
        self.extended = False  # the limits are new, and the present plan is for the old ones
        self.slowdown = 1.0  # of iterations against the profile, as the present plan assumes
        self.brackets = [Bracket(pool, spec, quote) for pool, spec in enumerate(quote.problem.specs)]

    def start(self, state: State) -> Advice:
        trials = sum(bracket.spec.stages[0].trials for bracket in self.brackets)
        return Advice(wishes=self._wishes(state), sample=trials)

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        is_report = isinstance(event, _FREQUENT) and not self.extended
        if is_report and not [True for bracket in self.brackets if bracket.is_due(state)]:
            return None
        before = [bracket.step for bracket in self.brackets]
        advice = None if isinstance(event, _FREQUENT) else self._apply(event, state)
        if reason := self._reason_to_plan(event, state):
            advice = self._plan_again(state, reason, advice)
        barriers = tuple((b.pool, b.stage) for b in self.brackets if b.advance(state))
        if advice is None and before == [bracket.step for bracket in self.brackets]:
            return None
        done = all(bracket.is_done for bracket in self.brackets)
        return replace(
            advice or Advice(),
            wishes=self._wishes(state),
            barriers=barriers,
            timers=dict(self._late_timers(state)),
            done=None if not done else Ending.COMPLETE if state.best else Ending.FAILED,
        )

    def refuses(self, request: RunExtended | ConfigAdded, state: State) -> str | None:
        if isinstance(request, ConfigAdded) or request.more_trials:
            return refuse_fixed("a planned search")
        return refuse_complete(state)

    def progress(self, state: State) -> Progress:
        tracks = tuple(bracket.progress(state) for bracket in self.brackets)
        return Progress(tracks=tracks, upcoming=tuple(self._upcoming(state)))

    def _upcoming(self, state: State) -> Iterator[Upcoming]:
        for bracket in self.brackets:
            at_s = state.timers.get(bracket.late_timer)
            if at_s is not None and not bracket.is_done and at_s < state.timers.get(DEADLINE_CALL, math.inf):
                name = bracket.stages[bracket.stage].name
                yield Upcoming(at_s=at_s, text=f"if stage {name} still trains, the rest is planned again")

    def _apply(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        match event:
            case TrialsSampled():
                drawn = [trial for trial, _ in event.trials]
                for bracket in self.brackets:  # if the space is exhausted the last brackets get fewer
                    wanted = bracket.spec.stages[0].trials
                    bracket.enter(drawn[:wanted])
                    del drawn[:wanted]
                return Advice()
            case BarrierPassed():
                self.cap = None
                return Advice(stop=tuple(self.brackets[event.pool].promote(state)))
            case TrialStopAsked():
                return Advice()
            case RunExtended():
                self.cap, self.extended = None, True
                most = state.terms.cluster.max_nodes
                self.problem = replace(self.problem, cluster=replace(self.problem.cluster, max_nodes=most))
                return Advice()
            case NodesRefused() | Vetoed():
                self.cap = sum(state.pool(b.pool).coming for b in self.brackets) or None
        return None

    def _wishes(self, state: State) -> Wishes:
        held = {bracket.pool: bracket.nodes_held for bracket in self.brackets}
        steps = {bracket.step for bracket in self.brackets}
        if self.problem.cluster.fixed and steps != {BracketStep.DONE} and BracketStep.WAITING not in steps:
            held = self._hold_all(held, state)
        trials: tuple[Wish, ...] = sum((bracket.wishes(state) for bracket in self.brackets), ())
        at_once = {b.pool: b.gangs for b in self.brackets if b.gangs is not None}
        pack = bills_nodes(self.problem.cluster)
        return Wishes(trials=trials, nodes=held, at_once=at_once, pack=pack)

    def _hold_all(self, held: dict[int, int], state: State) -> dict[int, int]:
        """Hold a fixed cluster to the end, except nodes that another bracket is short of."""
        coming = {pool: state.pool(pool).coming for pool in held}
        short = self.cap is not None and any(coming[pool] < nodes for pool, nodes in held.items())
        idle = {pool: 0 if short else nodes for pool, nodes in coming.items()}
        kept = {b.pool: idle[b.pool] if b.is_done else b.plan.peak_nodes for b in self.brackets}
        if bills_nodes(self.problem.cluster) and not (short or self.cap or self.brackets[0].is_done):
            kept[0] += max(0, self.problem.cluster.max_nodes - sum(kept.values()))
        return kept

    def _reason_to_plan(self, event: AnyEvent | Vetoed, state: State) -> Reason | None:
        is_frequent = isinstance(event, _FREQUENT) and not self.extended
        if not is_frequent and (opportunity := self._opportunity(event, state)):
            return Reason(opportunity)
        for bracket in self.brackets:
            if not bracket.is_under_way:
                continue
            pool = state.pool(bracket.pool)
            held = min(bracket.nodes_held, pool.wanted)  # nodes not yet requested are not missing
            if pool.coming < held and self._is_new(state):
                return Reason(f"{held - pool.coming} of {held} nodes are missing")
            match event:
                case TimerFired(timer=bracket.late_timer) if bracket.is_training(state):
                    return Reason(f"stage {bracket.stage + 1} takes longer than planned")
                case BarrierPassed(pool=bracket.pool):
                    return self._after_barrier(bracket, state)
        return None

    def _opportunity(self, event: AnyEvent | Vetoed, state: State) -> str | None:
        """A change that is not a deviation from the plan."""
        match event:
            case TimerFired() if self._may_ask_again(event):
                self.cap = None
                return "more nodes may be had now"
            case Resumed() if event.has_other_limits and self._is_under_way:
                return "the limits are new"
            case _ if self.extended and self._is_under_way:
                return "the limits are new"
            case BarrierPassed() if self.brackets[event.pool].is_done and self._has_waiting:
                return "the next bracket can begin"
            case TrialsSampled() if self._are_others(state):
                return "these configurations are not those of the quote"
            case _:
                return None

    @property
    def _is_under_way(self) -> bool:
        return any(bracket.is_under_way for bracket in self.brackets)

    @property
    def _has_waiting(self) -> bool:
        return any(bracket.step is BracketStep.WAITING for bracket in self.brackets)

    def _are_others(self, state: State) -> bool:
        """Whether the quote knew the speed of configurations, and those drawn have another one."""
        known = [start.speeds for start in self.problem.starts]
        observed = state.observation()
        drawn = [b.start_state(state, observed).speeds for b in self.brackets if not b.is_done]
        return any(known) and known != drawn

    def _may_ask_again(self, event: AnyEvent | Vetoed) -> bool:
        """The retry timer fires after a refusal, and the plan for the nodes at hand is too slow."""
        is_retry = isinstance(event, TimerFired) and event.timer.startswith(RETRY)
        return is_retry and self.cap is not None and self.too_slow

    def _after_barrier(self, bracket: Bracket, state: State) -> Reason | None:
        """Training is faster or slower than planned, the survivors differ in speed, or limits are near."""
        observation = state.observation()
        change = observation.slowdown / self.slowdown - 1.0
        if abs(change) > max(_SURPRISE, _SURPRISE_SDS * observation.luck):
            return Reason(f"iterations take {_more_or_less(change)} time than planned")
        speeds = bracket.start_state(state, observation).speeds
        if _differ(speeds):
            change = fmean(speed.factor for speed in speeds) - 1.0
            compared = f"take {_more_or_less(change)} time than the average"
            if abs(change) < _HARDLY:
                compared = "are as fast as the average"
            return Reason(f"the trials that go on {compared}", is_usual=True)
        overrun = self._overrun(bracket, state)
        return None if overrun is None else Reason(overrun)

    def _overrun(self, bracket: Bracket, state: State) -> str | None:
        """Compare the rest of the plan, with its margin, with the rest of the limits."""
        rest, limits = self._rest(bracket, bracket.stage), state.limits
        if limits.deadline_s is not None:
            late = state.now_s + rest.seconds + rest.margin_s - limits.deadline_s
            if late > _PATIENCE * limits.deadline_s:
                return f"{format_duration(late)} behind the plan"
        if limits.budget_usd is not None:
            to_come = sum(self._usd_to_come(b, state) for b in self.brackets if not b.is_done)
            over = state.ledger.spent_usd(state.now_s) + to_come + rest.margin_usd - limits.budget_usd
            if over > _PATIENCE * limits.budget_usd:
                return f"{format_usd(over)} above the plan"
        return None

    def _usd_to_come(self, bracket: Bracket, state: State) -> float:
        """By plan, less what the present stage has already cost."""
        now = state.ledger.stage_usd(bracket.pool, state.now_s)
        later = self._rest(bracket, bracket.stage + 1).usd
        return later + max(0.0, self._rest(bracket, bracket.stage).usd - later - now)

    def _late_timers(self, state: State) -> Iterator[tuple[str, float]]:
        """When a stage must have ended so that the later ones keep the deadline."""
        deadline = state.limits.deadline_s
        for bracket in self.brackets:
            is_new = bracket.step is BracketStep.TRAINING and bracket.stage not in bracket.watched
            if deadline is not None and is_new:
                bracket.watched.add(bracket.stage)
                rest = self._rest(bracket, bracket.stage + 1)
                at_s = deadline * (1 + _PATIENCE) - rest.seconds - rest.margin_s
                if at_s > state.now_s:
                    yield bracket.late_timer, at_s

    def _rest(self, bracket: Bracket, stage: int) -> RemainingWork:
        return rest_of(bracket.quote, bracket.quoted, stage - bracket.first_stage)

    def _plan_again(self, state: State, reason: Reason, advice: Advice | None) -> Advice:
        """For all brackets or, if there are too few nodes, for the first ones; the others wait."""
        ready = [b for b in self.brackets if b.is_under_way or b.step is BracketStep.WAITING]
        text, conceded = f"{reason.text}, and no other plan is left", None
        observation = state.observation()
        for count in range(len(ready), 0, -1):
            running = ready[:count]
            problem = self._problem(running, state, observation)
            quote, conceded = find_plan(self.planner, problem, state, self.promised_usd)
            if quote is None:
                continue
            left_s = state.time_left_s
            self.too_slow = left_s is not None and quote.jct_quantile_seconds > left_s
            is_same = all(bracket.goes_on_with(quote, position) for position, bracket in enumerate(running))
            for position, bracket in enumerate(running):
                bracket.adopt(quote, position, state)
            for bracket in ready[count:]:
                bracket.wait()
            nodes = "; ".join(bracket.describe() for bracket in running)
            left = f"{time_and_money(quote.jct_seconds, quote.cost)} to go"
            text = "" if is_same and reason.is_usual else f"{reason.text}; now {nodes}, {left}"
            break
        self.extended = False
        self.planned_for = self._situation(state)
        self.slowdown = observation.slowdown
        notes = (("replan", text),) if text else ()
        return replace(advice or Advice(), notes=notes, concede=conceded)

    def _problem(self, running: list[Bracket], state: State, observation: SpeedObservation) -> Problem:
        cluster = observation.cluster(self.problem.cluster)
        most = cluster.max_nodes if self.cap is None else min(self.cap, cluster.max_nodes)
        return replace(
            self.problem,
            specs=tuple(bracket.spec for bracket in running),
            starts=tuple(bracket.start_state(state, observation) for bracket in running),
            limits=limits_left(state),
            profile=observation.profile(self.problem.profile),
            cluster=replace(cluster, max_nodes=most),
        )

    def _is_new(self, state: State) -> bool:
        """Whether there are nodes at all, and the present plan was made for another situation."""
        has_nodes = any(state.pool(bracket.pool).coming for bracket in self.brackets)
        return has_nodes and self._situation(state) != self.planned_for

    def _situation(self, state: State) -> tuple[object, ...]:
        """What a plan was made for: in the same situation another search finds the same plan."""
        stages = ((b.step, b.stage, b.nodes_held, state.pool(b.pool).coming) for b in self.brackets)
        return (self.cap, *stages)


def _differ(speeds: Sequence[TrialSpeed]) -> bool:
    squares = [(speed.factor - 1.0) ** 2 for speed in speeds]
    return bool(squares) and math.sqrt(fmean(squares)) > ALIKE


def _more_or_less(change: float) -> str:
    return f"{abs(change):.0%} {'more' if change > 0.0 else 'less'}"


def create(setup: PolicySetup) -> RubberBand:
    if setup.quote is None:
        raise JobError(
            f"rubberband follows a plan, but search.algorithm {setup.search.get('algorithm')} has none; "
            "expected search.algorithm: sha, hyperband or stages"
        )
    return RubberBand(setup.quote, setup.planner)
