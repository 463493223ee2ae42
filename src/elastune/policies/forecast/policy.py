"""`forecast`: the best model for the time and the money, by ranks alone; our own.

Nothing waits at barriers. Each trial is ranked at the highest of the rungs 1, 2, 4, ... that it has reached
(`model`), and what a trial deserves falls with the number j of trials that are better.

- At first (`outlook`: 25 % of the time, 60 % of the money) the M trials compared so far deserve
  M / 2(j + 1) times the first rung, on the fewest slots. Free slots go to a trial that deserves its next
  rung, the furthest first, else to a new one.
- Then a trial deserves (j + 1)^-2.5 of what the best does, in all what the money left pays for, and none
  more than a winner can reach by the deadline. It trains on if it deserves half as much again as it has
  (later: more than it has), on the fewest slots with which it would still reach what the best does.
- Slots that are paid for anyway never idle: next comes the best of the others, then a new trial, then more
  slots for the best; no node is kept for that. So dead or finished leaders are replaced at once, and the
  money is spent.

Leases end at rungs and after a twelfth of the time, when slots may change. Nodes come at the start, those of
the first part; more of them later only if money is left that pays for them to the end, boots included.
"""

from __future__ import annotations

import math

import numpy as np

from elastune.core import events
from elastune.core.commands import Ending
from elastune.core.policy import Policy, Progress, Vetoed
from elastune.core.state import State
from elastune.core.trials import Activity, Phase, Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.errors import InvariantError
from elastune.model.billing import bills_nodes
from elastune.model.ids import TrialId
from elastune.model.quantities import Count, Iterations
from elastune.policies.costs import nodes_at_hand
from elastune.policies.extending import more_trials, refuse_complete, refuse_endless
from elastune.policies.forecast.beliefs import beliefs, intentions
from elastune.policies.forecast.leases import TrialLeases, room_of, scores_of
from elastune.policies.forecast.model import Ladder, iterations_of_best, shares_of
from elastune.policies.forecast.outlook import USUAL, Outlook, look_ahead
from elastune.policies.registry import PolicySetup

_REVIEW = "forecast:review"
# A trial trains on if it deserves so much more than it has; less as time passes.
_STEP = 0.5


class ForecastOptions:
    """Without `trials`, as many as time and money allow; without `max_iterations`, none is fully trained."""

    trials: Count | None = None
    min_iterations: Iterations = 1
    max_iterations: Iterations | None = None


class ForecastPolicy(Policy):
    def __init__(self, options: ForecastOptions) -> None:
        self.options = options
        self.shape = USUAL
        self.trials_left: float = math.inf if options.trials is None else options.trials
        self.leases: TrialLeases | None = None
        self.idle: dict[TrialId, None] = {}  # trials that may train on
        self.next_rung: dict[TrialId, int] = {}  # of each trial that was compared
        self.sampling = 0
        self.exploring = True

    def start(self, state: State) -> Advice:
        outlook = self._look_ahead(state)
        self.leases = TrialLeases(outlook, Ladder(outlook.first), self.options.max_iterations)
        return self._schedule(state)

    def handle(self, event: events.AnyEvent | Vetoed, state: State) -> Advice | None:  # noqa: C901, PLR0911
        match event:
            case events.TrialsSampled():
                self.sampling = 0
                if event.exhausted:
                    self.trials_left = 0
                for trial, _ in event.trials:
                    least = self.ahead.least_slots
                    self.lent.lend(state.trials[trial], least, self.lent.ladder.first, state)
                return self._schedule(state)
            case events.Progressed():
                return self._schedule(state) if self._has_moved(state.trials[event.trial], state) else None
            case events.TrialPaused():
                return None if self.lent.live else self._schedule(state)
            case events.RunExtended() | events.ConfigAdded():
                self.trials_left = more_trials(self.trials_left, event)
                return self._begin_again(state)
            case events.Resumed():
                return self._begin_again(state)
            case events.NodesReady() | events.NodesRefused() | events.NodeLost() | Vetoed():
                return self._schedule(state)
            case events.TrialStopAsked():
                self._has_moved(state.trials[event.trial], state)
                return self._schedule(state)
            case events.TimerFired(timer=timer) if timer == _REVIEW:
                return self._schedule(state)
            case _:
                return None

    def refuses(self, request: events.RunExtended | events.ConfigAdded, state: State) -> str | None:
        if isinstance(request, events.ConfigAdded):
            return None
        if request.more_trials:
            return refuse_endless(self.trials_left)
        unfinished = any(number in state.changes.cut for number in (*self.idle, *self.lent.live))
        return None if unfinished or self.trials_left else refuse_complete(state, takes_trials=True)

    @property
    def lent(self) -> TrialLeases:
        if self.leases is None:
            raise InvariantError("forecast has no leases; expected `start` before any other event")
        return self.leases

    @property
    def ahead(self) -> Outlook:
        return self.lent.outlook

    def _begin_again(self, state: State) -> Advice:
        """Other limits, or a driver that was away: what is left is divided anew."""
        self.lent.outlook = self._look_ahead(state)
        self.exploring = self.exploring or state.now_s < self.ahead.switch_s
        return self._schedule(state)

    def _look_ahead(self, state: State) -> Outlook:
        least, most = self.options.min_iterations, self.options.max_iterations
        return look_ahead(state, trials=self.trials_left, least=least, most=most, shape=self.shape)

    # What is known of the trials.

    def _has_moved(self, trial: Trial, state: State) -> bool:
        """Compare the trial; True if it has reached its goal or is over, or if nothing trains."""
        ladder = self.lent.ladder
        is_through = trial.is_through(self.options.max_iterations)
        if is_through or trial.iteration >= self.next_rung.get(trial.number, ladder.first):
            scores = scores_of(trial, state)
            ladder.record(trial.number, scores)
            self.next_rung[trial.number] = ladder.next_rung(trial.iteration)
            if is_through:
                failed = trial.phase.is_over and trial.phase is not Phase.FINISHED
                ladder.close(trial.number, failed=failed)
        lent = self.lent.live.get(trial.number)
        if lent is None:
            return not self.lent.live
        return _is_at(trial, lent.until)

    def _retire(self, state: State) -> None:
        """End the leases of trials that have reached their goal or are over."""
        live, trials = self.lent.live, state.trials
        for number in [n for n, lent in live.items() if _is_at(trials[n], lent.until)]:
            del live[number]
            if not state.trials[number].phase.is_over:
                self.idle[number] = None

    def _may_train(self, number: TrialId, state: State) -> bool:
        if number not in self.idle:
            return False
        trial = state.trials[number]
        is_late = trial.late_after_s is not None and state.limits.deadline_s is not None
        return not (is_late or trial.is_through(self.options.max_iterations))

    # Which trials train.

    def _schedule(self, state: State) -> Advice:
        self._retire(state)
        sample, again_s = 0, math.inf
        if self.exploring and state.now_s >= self.ahead.switch_s:
            self.exploring = False
            self.lent.outlook = self._look_ahead(state)
            self._end_exploring()
        if self.exploring:
            sample, again_s = self._explore(state)
        if not self.exploring:
            sample = max(sample, self._exploit(state))
        return self._advise(state, sample, again_s)

    def _end_exploring(self) -> None:
        """Leases of the first part bind the second no longer: those to far rungs, of trials that deserve no
        more, would use up its money. Trials that have not been compared yet train on."""
        compared = [number for number in self.lent.live if number in self.lent.ladder.highest]
        for number in compared:
            del self.lent.live[number]
            self.idle[number] = None

    def _explore(self, state: State) -> tuple[int, float]:
        """Promote trials, then draw new ones; returns how many, and when there is money for more."""
        ahead, lent, least = self.ahead, self.lent, self.ahead.least_slots
        each = room_of(least, state)
        slots = self._slots_free(nodes_at_hand(state, ahead.exploring_nodes), state)
        usd = ahead.exploring_usd(state) - lent.usd_to_come(state)
        iteration_usd = least * ahead.iteration_s * state.terms.cluster.slot_usd_per_s
        while slots >= each and usd > 0.0 and (number := self._promotable(state)) is not None:
            trial = state.trials[number]
            goal = lent.ladder.next_rung(trial.iteration)
            self._lend(trial, least, goal, state)
            slots -= each
            usd -= (goal - trial.iteration) * iteration_usd
        fresh, first_usd = 0, lent.ladder.first * iteration_usd
        if slots >= each and usd > 0.0 and not self.sampling:
            paid = usd / first_usd + 1 if first_usd else math.inf
            fresh = int(min(slots // each, paid, self.trials_left))
            self.exploring = fresh > 0
        if usd > 0.0:
            return self._draw(fresh), math.inf
        exploring_usd = self.shape.exploring_money * (state.limits.budget_usd or 0.0)
        usd_per_s = exploring_usd / (ahead.switch_s - ahead.begin_s)
        return self._draw(fresh), state.now_s + (first_usd - usd) / usd_per_s

    def _promotable(self, state: State) -> TrialId | None:
        """The furthest trial that deserves its next rung, the best of them first."""
        ladder = self.lent.ladder
        deserved = self.shape.exploring_share * ladder.measured * ladder.first
        for place in range(len(ladder.rungs) - 1, -1, -1):
            rung = ladder.rungs[place]
            if rung.iterations >= self.ahead.goal:
                continue
            for _, number in rung.ranked[: int(deserved / (2 * rung.iterations))]:
                if ladder.highest.get(number) == place and self._may_train(number, state):
                    return number
        return None

    def _exploit(self, state: State) -> int:
        """Lend slots to the trials that deserve more training; returns how many new ones to draw."""
        slots = self._slots_free(self.ahead.nodes_paid(state), state)
        ranked = self._ranked(state)
        patience = self._patience(state)
        begun: list[Trial] = []
        deserved, reach = self._deserved(ranked, state)
        for trial, iterations in deserved:
            if iterations < min(patience * trial.iteration, self.ahead.goal):
                continue
            slots += self._make_room(trial, reach, slots, state)
            size = self.lent.size(trial, reach, slots, state)
            if size is None:
                break
            self._lend(trial, size, None, state)
            slots -= room_of(size, state)
            begun.append(trial)
        return self._draw(max(self._fill(begun, ranked, state), len(state.changes.queued)))

    def _make_room(self, trial: Trial, reach: float, slots: float, state: State) -> float:
        """Pause the worst of the trials that this one is better than, if it needs their slots."""
        size = self.lent.size(trial, reach, math.inf, state)
        needed = room_of(size or self.ahead.least_slots, state) - slots
        live, ladder, made = self.lent.live, self.lent.ladder, 0.0
        if needed <= 0.0 or self.ahead.buys_slots(state):
            return 0.0
        better = ladder.better_than(trial.number)
        long_ago_s = state.now_s - self.lent.least_s
        ranked = (
            (ladder.better_than(number), number)
            for number, lent in live.items()
            if number in ladder.highest and lent.since_s <= long_ago_s
        )
        for _, number in sorted((each for each in ranked if each[0] > better), reverse=True):
            if made >= needed:
                break
            made += live.pop(number).room
            self.idle[number] = None
        return made

    def _fill(self, begun: list[Trial], ranked: list[tuple[int, TrialId]], state: State) -> int:
        """Use slots that cost nothing more: the best of the others, new trials, more slots for the best."""
        least = self.ahead.least_slots
        each, slots = room_of(least, state), self._slots_free(self._nodes_held(state), state)
        if self.ahead.buys_slots(state):
            slots = 0.0
        if not (self.lent.live or self.sampling):  # money that is too little for a step is spent nevertheless
            slots = max(slots, min(each, self._slots_free(self.ahead.nodes_paid(state), state)))
        for _, number in ranked:
            if slots < each:
                return 0
            if number in self.idle:
                self._lend(state.trials[number], least, None, state)
                self.lent.live[number].is_spare = True
                begun.append(state.trials[number])
                slots -= each
        first_s = self.lent.ladder.first * self.ahead.iteration_s + self.ahead.stop_s
        fresh = 0
        if slots >= each and not self.sampling and self.ahead.left_s(state) > first_s:
            fresh = int(min(slots // each, self.trials_left))
        slots -= each * fresh
        for trial in begun:
            slots -= self.lent.widen(trial, slots, state)
        return fresh

    def _lend(self, trial: Trial, slots: int, until: int | None, state: State) -> None:
        del self.idle[trial.number]
        if until is None:
            self.lent.lend_a_turn(trial, slots, state)
        else:
            self.lent.lend(trial, slots, until, state)

    def _ranked(self, state: State) -> list[tuple[int, TrialId]]:
        """The idle trials that may train, by how many are better."""
        return self.lent.ladder.ranked([number for number in self.idle if self._may_train(number, state)])

    def _deserved(
        self, ranked: list[tuple[int, TrialId]], state: State
    ) -> tuple[list[tuple[Trial, float]], float]:
        """The iterations that each trial with work to do deserves, the best first; and those of the best.

        What leases under way will cost counts as spent, what they will train as done.
        """
        goal, ladder = self.ahead.goal, self.lent.ladder
        open_ = [(better, number) for better, number in ranked if state.trials[number].iteration < goal]
        if not open_:
            return [], goal
        live = [(ladder.better_than(number), number) for number in self.lent.live if number in ladder.highest]
        done = [state.trials[number].iteration for _, number in open_]
        done += [self.lent.live[number].until for _, number in live]
        shares = shares_of(np.array([better for better, _ in (*open_, *live)]), self.shape.sharpness)
        work = max(0.0, self.ahead.work_left(state) - self.lent.work_to_come(state))
        best = iterations_of_best(shares, np.array(done), goal, work)
        deserved = np.minimum(goal, best * shares)
        trials = [state.trials[number] for _, number in open_]
        return list(zip(trials, deserved.tolist(), strict=False)), float(deserved.max())

    def _patience(self, state: State) -> float:
        ahead = self.ahead
        return 1.0 + _STEP * min(1.0, ahead.left_s(state) / (ahead.end_s - ahead.switch_s))

    def _draw(self, count: int) -> int:
        if self.sampling or not count:
            return 0
        self.sampling = int(min(count, self.trials_left))
        self.trials_left -= self.sampling
        return self.sampling

    # Slots and nodes.

    def _slots_free(self, nodes: int, state: State) -> float:
        lent = self.lent.slots_lent(self.sampling, state)
        return nodes * state.terms.cluster.slots_per_node - lent

    def _nodes_held(self, state: State) -> int:
        """In the second part: nodes that are there in any case."""
        if not self.ahead.buys_nodes(state):
            return nodes_at_hand(state, state.terms.cluster.max_nodes)
        return max(self.lent.nodes_earned(state), self.ahead.prepaid_nodes(state))

    def _nodes_wanted(self, state: State) -> int:
        cluster = state.terms.cluster
        if cluster.fixed:
            return cluster.max_nodes
        needed = self.lent.nodes_needed(self.sampling, state)
        if not bills_nodes(cluster):  # idle nodes cost nothing
            return max(needed, min(state.pool().coming, cluster.max_nodes))
        if self.exploring and self.trials_left:
            return self.ahead.exploring_nodes
        return max(needed, self.ahead.prepaid_nodes(state))

    # Advice.

    def _advise(self, state: State, sample: int, again_s: float) -> Advice:
        live, least = self.lent.live, self.ahead.least_slots
        idle = not (live or self.sampling) and math.isinf(again_s)
        done = None
        if idle and not any(_reports_its_end(trial) for trial in state.living()):
            done = Ending.COMPLETE if state.best else Ending.FAILED
        if self.exploring and state.limits.deadline_s is not None:
            again_s = min(again_s, self.ahead.switch_s)
        return Advice(
            wishes=Wishes(
                trials=self._wishes(),
                nodes={0: 0 if idle and not state.terms.cluster.fixed else self._nodes_wanted(state)},
                steady=all(lent.slots == least for lent in live.values()),
            ),
            sample=sample,
            reviews={} if idle or math.isinf(again_s) else {_REVIEW: again_s},
            done=done,
        )

    def _wishes(self) -> tuple[Wish, ...]:
        """The best first."""
        live, most = self.lent.live, self.options.max_iterations
        wishes = []
        for _, number in self.lent.ladder.ranked(live):
            lent = live[number]
            wishes.append(Wish(number, lent.slots, lent.until, final=lent.until == most))
        return tuple(wishes)

    def progress(self, state: State) -> Progress:
        if self.leases is None or state.ended is not None:
            return Progress()
        return Progress(upcoming=tuple(beliefs(self.leases, state, exploring=self.exploring)))

    def intentions(self, state: State) -> tuple[str, ...]:
        return tuple(intentions(self._look_ahead(state), state, trials=self.trials_left))


def _is_at(trial: Trial, goal: int) -> bool:
    return trial.phase.is_over or trial.has_done(goal)


def _reports_its_end(trial: Trial) -> bool:
    """Whether an event follows when its gang is dissolved; one that has not begun just stops."""
    return trial.activity not in (None, Activity.STARTING) and not trial.is_kept


def create(setup: PolicySetup) -> ForecastPolicy:
    return ForecastPolicy(setup.read(ForecastOptions))
