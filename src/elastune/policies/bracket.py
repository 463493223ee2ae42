"""One bracket (sequence of stages) that follows a plan, and plans for the rest when a run leaves its plan."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from elastune.core.observed_speed import SpeedObservation
from elastune.core.policy import ScheduledStage, TrackProgress
from elastune.core.state import State
from elastune.core.trials import Activity, Trial
from elastune.core.wishes import Wish
from elastune.model.billing import bills_nodes
from elastune.model.ids import TrialId
from elastune.model.limits import Limit, Limits, Objective
from elastune.model.profile import ALIKE
from elastune.model.stages import Spec
from elastune.placement.staying import may_stay
from elastune.planning.prediction.plan import StagePlan
from elastune.planning.problem import Problem, StartState
from elastune.planning.quote import Quote
from elastune.policies.rungs import group_trials, keep_best

# An iteration is reported when it ends; on average, half of the next one is done.
_UNSEEN = 0.5


class BracketStep(enum.Enum):
    SCALING = "scaling"  # waits for configurations and nodes
    TRAINING = "training"
    MEETING = "meeting"  # all trials are saved; the barrier is called
    WAITING = "waiting"  # too few nodes for all brackets: it starts when another is done
    DONE = "done"


class Bracket:
    """`plan.stages[0]` is for `first_stage`; `quoted` is the index of the plan in `quote`."""

    def __init__(self, pool: int, spec: Spec, quote: Quote) -> None:
        self.pool = pool
        self.spec = spec
        self.quote = quote
        self.plan = quote.brackets[pool].plan
        self.first_stage = 0
        self.quoted = pool
        self.stage = 0
        self.step = BracketStep.SCALING
        self.alive: list[TrialId] = []  # best first
        self.group_of: dict[TrialId, int] = {}  # the bracket of each trial, if the spec stands for several
        self.entered = False
        self.slots: int | None = None  # per trial, of the gangs that train now
        self.gangs: int | None = None  # how many train at once, by plan
        self.through = 0  # this many of `alive`, from the front, are known to be at the barrier
        self.watched: set[int] = set()  # stages whose lateness has a timer
        self.goals = list(itertools.accumulate(stage.iterations for stage in spec.stages))
        name = quote.brackets[pool].name.removeprefix("bracket ")
        self.prefix = f"{name}." if len(quote.brackets) > 1 else ""  # of the names of its stages
        cluster = quote.problem.cluster
        self.boot_s = cluster.queue.mean + cluster.init.mean
        self.stages = tuple(self._scheduled(0.0, 0.0, held=0, done=0.0))  # future ones as planned now

    @property
    def is_done(self) -> bool:
        return self.step is BracketStep.DONE

    @property
    def is_under_way(self) -> bool:
        """Neither waiting, at the barrier nor done: its plan can be changed."""
        return self.step is BracketStep.TRAINING or self.step is BracketStep.SCALING

    @property
    def late_timer(self) -> str:
        return f"late:{self.pool}:{self.stage}"

    @property
    def goal(self) -> int:
        return self.goals[self.stage]

    @property
    def nodes_held(self) -> int:
        idle = self.step is BracketStep.DONE or self.step is BracketStep.WAITING
        return 0 if idle else self._planned.nodes_held

    def enter(self, trials: list[TrialId]) -> None:
        self.alive = trials
        self.entered = True
        self.group_of = group_trials(self.spec, trials)
        if not trials:
            self.step = BracketStep.DONE

    def is_training(self, state: State) -> bool:
        """Whether a trial has work left in this stage."""
        working = (not _is_through(trial, self.goal) for trial in self._trials(state))
        return self.step is BracketStep.TRAINING and any(working)

    def wishes(self, state: State) -> tuple[Wish, ...]:
        """All trials train to the end of the stage; gangs that have their size in the next one wait there.
        While more nodes boot, running gangs keep their size."""
        is_meeting = self.step is BracketStep.MEETING
        if self.slots is None or not (self.is_under_way or is_meeting):
            return ()
        final, stay = self.stage == len(self.goals) - 1, self._gangs_stay(state)
        living = (trial for trial in self._trials(state) if not trial.phase.is_over)
        return tuple(
            Wish(trial.number, self.slots, self.goal, self.pool, final, stay)
            for trial in living
            if trial.is_kept or not is_meeting
        )

    def _gangs_stay(self, state: State) -> bool:
        """Whether gangs wait at the barrier: by plan, they have the same size in the next stage."""
        following = self.stage + 1 - self.first_stage
        if self.slots is None or following == len(self.plan.stages) or state.terms.data is not None:
            return False
        return may_stay(
            slots_before=self.slots,
            slots_now=self.plan.stages[following].allocation.slots_per_trial,
            waiting_is_billed=not bills_nodes(state.terms.cluster),
        )

    def is_due(self, state: State) -> bool:
        """Whether a report of a trial may change anything: a step can be taken, or nodes are missing."""
        if self.step is not BracketStep.TRAINING:
            return self.step is BracketStep.SCALING
        pool = state.pool(self.pool)
        return pool.coming < min(self.nodes_held, pool.wanted) or self._is_at_barrier(state)

    def advance(self, state: State) -> bool:
        """Take the next step if it is due; True: call the barrier of the present stage."""
        if self.step is BracketStep.SCALING and self.entered and self._has_its_nodes(state):
            self.step, use = BracketStep.TRAINING, self._planned.allocation
            self.slots, self.gangs = use.slots_per_trial, use.gangs
        if self.is_under_way and self.slots is not None and self._is_at_barrier(state):
            self.step = BracketStep.MEETING
            return True
        return False

    def _has_its_nodes(self, state: State) -> bool:
        """All nodes of the plan are ready, or all that will ever come."""
        pool = state.pool(self.pool)
        has_all_there_is = pool.wanted >= self.nodes_held and pool.coming == pool.ready > 0
        return pool.ready >= self.nodes_held or (has_all_there_is and pool.retry_s is None)

    def promote(self, state: State) -> list[TrialId]:
        """End the stage: the best trials go on; returns the others. Gangs that have stayed go on at once."""
        stays = self._gangs_stay(state)
        trials = state.rank([t for t in self._trials(state) if t.values and t.error is None])
        self.stage += 1
        if self.stage == len(self.goals) or not trials:
            self.step = BracketStep.DONE
            return []
        going = [trial for trial in trials if not trial.phase.is_over]
        kept = keep_best(self.spec, self.stage, going, self.group_of)
        self.alive, self.through = [trial.number for trial in kept], 0
        self.step = BracketStep.SCALING if kept else BracketStep.DONE
        self.slots = self.slots if stays else None
        self.gangs = self._planned.allocation.gangs if stays else None
        return [trial.number for trial in going if trial.number not in set(self.alive)]

    def goes_on_with(self, quote: Quote, quoted: int) -> bool:
        """Whether the new plan is the rest of the present one."""
        return quote.brackets[quoted].plan.stages == self.plan.stages[self.stage - self.first_stage :]

    def adopt(self, quote: Quote, quoted: int, state: State) -> None:
        self.quote, self.quoted = quote, quoted
        self.plan, self.first_stage = quote.brackets[quoted].plan, self.stage
        over, usd = self.stages[: self.stage], self.stages[self.stage].begin_usd
        held, done = state.pool(self.pool).ready, self._share_done(state)
        self.stages = (*over, *self._scheduled(state.now_s, usd, held=held, done=done))
        self.step = BracketStep.SCALING
        self.watched.discard(self.stage)

    def wait(self) -> None:
        """Pause its trials; other brackets get its nodes."""
        self.step = BracketStep.WAITING

    def start_state(self, state: State, observed: SpeedObservation) -> StartState:
        """The present state for the planner. Not called at the barrier, where no work is left."""
        working = [trial for trial in self._trials(state) if not _is_through(trial, self.goal)]
        left = tuple(self.goal - trial.iteration for trial in working)
        declared = self.spec.stages[self.stage]
        if left == (declared.iterations,) * declared.trials:
            left = ()  # the stage begins, as declared
        sizes = {len(trial.gang) if _goes_on(trial) else 0 for trial in working}
        pool = state.pool(self.pool)
        ages = tuple(state.now_s - node.born_s for node in pool.nodes.values() if not node.leaving)
        slots_now = sizes.pop() if len(sizes) == 1 else 0
        speeds = state.speeds(working, observed)
        return StartState(
            stage=self.stage,
            work_left=left,
            node_ages_s=ages,
            slots_now=slots_now,
            speeds=speeds if any(speed != ALIKE for speed in speeds) else (),
        )

    def progress(self, state: State) -> TrackProgress:
        if self.is_done or state.ended is not None:
            return TrackProgress(stages=self.stages, present=len(self.stages), share=1.0, pool=self.pool)
        return TrackProgress(
            stages=self.stages,
            present=self.stage,
            share=self._share_done(state),
            trains=self.slots is not None and self.step is not BracketStep.WAITING,
            pool=self.pool,
        )

    def describe(self) -> str:
        return "nodes " + ", ".join(str(stage.nodes_held) for stage in self.plan.stages)

    @property
    def _planned(self) -> StagePlan:
        return self.plan.stages[self.stage - self.first_stage]

    def _trials(self, state: State) -> list[Trial]:
        return [state.trials[number] for number in self.alive]

    def _scheduled(self, at_s: float, usd: float, *, held: int, done: float) -> Iterator[ScheduledStage]:
        """The stages of the present plan, in sequence from `at_s`; `done` is the share of the first."""
        for number, quoted in enumerate(self.quote.brackets[self.quoted].stages, self.first_stage):
            stage = self.spec.stages[number]
            yield ScheduledStage(
                name=f"{self.prefix}{number + 1}",
                trials=stage.trials,
                iterations=stage.iterations,
                goal=self.goals[number],
                nodes=quoted.nodes_held,
                begin_s=at_s,
                seconds=quoted.seconds,
                boot_s=min(self.boot_s, quoted.seconds) if quoted.nodes_held > held else 0.0,
                begin_usd=usd,
                usd=quoted.cost,
                done=done,
            )
            at_s, usd, held, done = at_s + quoted.seconds, usd + quoted.cost, quoted.nodes_held, 0.0

    def _share_done(self, state: State) -> float:
        """Of the work of the present stage, without the trials that failed."""
        iterations = self.spec.stages[self.stage].iterations
        trials = [trial for trial in self._trials(state) if trial.error is None]
        done = 0.0
        for trial in trials:
            if _is_through(trial, self.goal):
                done += iterations
            else:
                done += max(0, len(trial.values) - (self.goal - iterations)) + _begun(state, trial)
        return min(1.0, done / (len(trials) * iterations)) if trials else 0.0

    def _is_at_barrier(self, state: State) -> bool:
        """All trials have trained to the end of the stage and are saved (some in their gangs), or are out."""
        while self.through < len(self.alive):
            trial = state.trials[self.alive[self.through]]
            has_left = trial.activity is None or trial.is_kept
            if not has_left or not _is_through(trial, self.goal):
                return False
            self.through += 1
        return True


def _is_through(trial: Trial, goal: int) -> bool:
    return trial.phase.is_over or trial.has_done(goal)


def _goes_on(trial: Trial) -> bool:
    """Whether it has a gang in which it can go on."""
    is_leaving = trial.revoked or (trial.activity is Activity.SAVING and not trial.stays)
    return trial.activity is not None and trial.visit is None and not is_leaving


def _begun(state: State, trial: Trial) -> float:
    """The part of the next iteration that is done; where models hop, reported visits say it."""
    if state.terms.data is None or (trial.activity is not None and trial.visit is None):
        return _UNSEEN if trial.activity is Activity.TRAINING else 0.0
    tour = state.hop_progress.get(trial.number)
    seen = () if tour is None or tour.iteration != trial.iteration + 1 else tour.seen
    return sum(state.terms.data.part_of_iteration(partition) for partition in seen)


Planner = Callable[[Problem, Objective | None], Quote | None]
"""The best plan for a problem; None if none keeps its limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingWork:
    """What the coming stages take by plan, and the margin of the quoted quantiles on top."""

    seconds: float
    usd: float
    margin_s: float
    margin_usd: float


def rest_of(quote: Quote, bracket: int, stage: int) -> RemainingWork:
    """From the given stage of the quoted plan on. The margin grows with the root of time, as noise does."""
    left = quote.brackets[bracket].stages[stage:]
    seconds, usd = sum(s.seconds for s in left), sum(s.cost for s in left)
    share = min(1.0, (seconds / quote.jct_seconds) ** 0.5) if quote.jct_seconds else 0.0
    return RemainingWork(
        seconds=seconds,
        usd=usd,
        margin_s=share * max(0.0, quote.jct_quantile_seconds - quote.jct_seconds),
        margin_usd=share * max(0.0, quote.cost_quantile - quote.cost),
    )


def limits_left(state: State) -> Limits:
    time, money = state.time_left_s, state.money_left_usd
    return replace(
        state.limits,
        deadline_s=None if time is None else max(0.0, time),
        budget_usd=None if money is None else max(0.0, money),
    )


def find_plan(
    planner: Planner, problem: Problem, state: State, quoted_usd: float
) -> tuple[Quote | None, Limit | None]:
    """A plan that keeps both limits; else one without the limit that may be exceeded, which is returned too;
    else the fastest plan on the nodes at hand.

    Without a budget the quoted cost counts as one: more money is spent only to keep the deadline.
    """
    if quote := planner(problem, None):
        return quote, None
    limits, may_exceed = problem.limits, state.terms.may_exceed
    without = replace(problem, limits=limits.without_budget())
    may_pay_more = may_exceed is Limit.BUDGET and limits.budget_usd is not None
    if may_pay_more and (quote := planner(without, Objective.COST)):
        return quote, may_exceed
    if limits.budget_usd is None:
        left = quoted_usd - state.ledger.spent_usd(state.now_s)
        limits = replace(limits, budget_usd=max(0.0, left))
    conceded = may_exceed if may_exceed is Limit.DEADLINE and problem.limits.deadline_s is not None else None
    if quote := planner(replace(problem, limits=limits.without_deadline()), Objective.TIME):
        return quote, conceded
    at_hand = max(1, len(state.where))
    cluster = replace(problem.cluster, max_nodes=min(at_hand, problem.cluster.max_nodes))
    least = replace(problem, limits=Limits(confidence=limits.confidence), cluster=cluster)
    return planner(least, Objective.TIME), conceded
