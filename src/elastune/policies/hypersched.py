"""HyperSched: ASHA that finds the best model by a deadline (Liaw et al. 2019, Algorithm 3).

Each idea can be switched off for its ablation:

- `speculative`: the first to reach a rung go on; a trial is paused when it is not among the best 1/eta of
  those *seen*, also later, when better ones arrive. Off: it is paused and waits to be promoted, as in ASHA.
- `entrance: deadline`: a trial enters (new, or promoted) while `min(R T_a, eta t_furthest)` is less than the
  time left. `always`: whenever there is room; a number: in that share of the time.
- `reallocate`: slots for which no trial enters go to the trials in training, evenly, the best first; a gang
  is resized only if `H' (T - T_0) > H T`, and not within `cooldown` iterations of the last resize.
- `profiled`: T_0 and the throughput H are measured. Off: no overhead and linear scaling.

T_a and T_0 are those of the run (`Timings`). Three behaviours of the paper are mended unless `letter` is set:

- `runners_up`: slots that no trial in training can use go to the best paused trials. Newcomers enter only if
  they can still come within two rungs of the furthest of all trials (`Entrance`). As published, newcomers
  flood the cluster when the leader is fully trained, and the runner-up stays paused for ever.
- `cooldown: cost`: a gang is resized when it has trained for as long as a resize needs to pay for itself. It
  also gives slots back to trials that enter.
- Slots that make a gang less than 5 % faster are left to others, and the speed-up is measured as well.

Every rung has its own queue (read literally, `start_next_trial` sends a trial that waits at a higher rung
through a lower one for ever), and section 4.2's sentence on entering is reversed; Algorithm 3 is right. If
the money runs out before the deadline, it sets the time left.
"""

from __future__ import annotations

import math
from bisect import bisect_right

from elastune.core import events
from elastune.core.commands import Ending
from elastune.core.policy import Policy, Progress, Upcoming, Vetoed
from elastune.core.state import State
from elastune.core.trials import Activity, Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from elastune.model.metric import Mode
from elastune.model.quantities import Count, Eta, Flag, Iterations
from elastune.policies.costs import RoundCosts, nodes_at_hand, steady_nodes
from elastune.policies.extending import more_trials, refuse_complete, refuse_endless
from elastune.policies.gang_sizes import Cooldown, GangSizes, Timings, best_first
from elastune.policies.hypersched_entry import Entrance, EntranceRule
from elastune.policies.registry import PolicySetup
from elastune.policies.rungs import HalvingOptions, SeenRung, rung_levels
from elastune.policies.runners_up import RunnersUp

_REVIEW = "hypersched:review"


class HyperSchedOptions(HalvingOptions):
    """Without `max_iterations` no trial ends as fully trained. `letter`: as published, except for the options
    that are given."""

    max_iterations: Iterations = 1_000_000_000
    eta: Eta = 4
    trials: Count | None = None
    speculative: Flag = True
    entrance: EntranceRule = "deadline"
    reallocate: Flag = True
    profiled: Flag = True
    letter: Flag = False
    runners_up: Flag | None = None
    cooldown: Cooldown | None = None


class HyperSched(Policy):
    def __init__(self, options: HyperSchedOptions) -> None:
        self.eta = options.eta
        self.max_iterations = options.max_iterations
        self.trials_left: float = options.trials or math.inf
        self.options = options
        as_published = 2 if options.letter else "cost"
        self.cooldown = as_published if options.cooldown is None else options.cooldown
        self.resumes = not options.letter if options.runners_up is None else options.runners_up
        levels = rung_levels(options.min_iterations, self.max_iterations, self.eta)
        self.rungs = [SeenRung(level) for level in levels]
        self._levels = levels
        self.timings = Timings(profiled=options.profiled, scales=not options.letter)
        self.runners_up = RunnersUp(self.rungs, self.timings)
        self.entrance = Entrance(options.entrance, self.rungs, self.timings, eta=self.eta, close=self.resumes)
        self.sizes = GangSizes(self.timings, self.cooldown, trims=not options.letter)
        self.live = self.sizes.wished  # the trials in the race
        self.sampling = 0
        self.nodes = 0

    def start(self, state: State) -> Advice:
        self.nodes = steady_nodes(state, iterations=min(self.max_iterations, 1_000))
        return self._schedule(state)

    def refuses(self, request: events.RunExtended | events.ConfigAdded, state: State) -> str | None:
        if isinstance(request, events.ConfigAdded):
            return None
        if request.more_trials:
            return refuse_endless(self.trials_left)
        waiting = (
            (rung, number) for rung in self.rungs for _, number in rung.waiting if number in state.changes.cut
        )
        best = any(
            self.resumes or rung.is_among_best(number, self.eta, speculative=False)
            for rung, number in waiting
        )
        return None if best or self.trials_left else refuse_complete(state, takes_trials=True)

    def handle(self, event: events.AnyEvent | Vetoed, state: State) -> Advice | None:  # noqa: PLR0911
        match event:
            case events.TrialsSampled():
                self.sampling = 0
                if event.exhausted:
                    self.trials_left = 0
                for trial, _ in event.trials:
                    self._enter(trial, state)
                return self._schedule(state)
            case events.GangStarted():
                self.entrance.gang_started(event)
                return None
            case events.Progressed():
                self.entrance.progressed(event, state)
                arrived = self._arrived(state.trials[event.trial], state)
                return self._schedule(state) if arrived else None
            case events.TrialPaused() | events.NodeLost() | events.Resumed() | Vetoed():
                return self._schedule(state)
            case events.NodesReady() | events.NodesRefused() | events.TrialStopAsked():
                return self._schedule(state)
            case events.RunExtended() | events.ConfigAdded():
                self.trials_left = more_trials(self.trials_left, event)
                return self.start(state)
            case events.TimerFired(timer=timer) if timer == _REVIEW:
                return self._schedule(state)
            case _:
                return None

    def progress(self, state: State) -> Progress:
        if _REVIEW not in state.timers:
            return Progress()
        text = "the slots are divided again, by the results of the trials"
        return Progress(upcoming=(Upcoming(at_s=state.timers[_REVIEW], text=text),))

    # Which trials train.

    def _arrived(self, trial: Trial, state: State) -> bool:
        """Record the trial at the rungs that it has reached; True: a new schedule is needed."""
        number = trial.number
        if trial.phase.is_over:
            return number in self.live or number in self.runners_up.training
        sign = -1.0 if state.terms.mode is Mode.MAX else 1.0
        reached = [r for r in self.rungs if r.iterations <= trial.iteration and number not in r.of]
        for rung in reached:
            rung.record(number, sign * trial.values[rung.iterations - 1])
        if reached and number in self.runners_up.training:  # it competes again
            for rung in self.rungs:
                rung.forget(number)
            self.sizes.enter(trial, self.runners_up.training.pop(number))
        return bool(reached)

    def _schedule(self, state: State) -> Advice:
        """Pause trials that have fallen behind, let others enter, divide the slots that are left."""
        self.timings.update(state)
        for number in tuple(self.live):
            trial = state.trials[number]
            if trial.phase.is_over:
                self._leave(number)
            elif (rung := self._failed_rung(trial)) is not None:
                rung.pause(number)
                self._leave(number)
        sample = self._let_in(state)
        reviews = self._divide(state) if self.options.reallocate and not sample else {}
        sample += self._use_idle(state) if self.resumes and not sample else 0
        wanted = [*best_first(self.live, state), *best_first(self.runners_up.training, state)]
        wishes = tuple(self._wish(number, slots, state) for number, slots in wanted)
        # With the fewest slots for all no gang moves, which spares the placement controller.
        steady = all(slots == state.terms.gangs.min_slots for _, slots in wanted)
        idle = not (wanted or self.sampling)
        done = None
        if idle and not any(_reports_its_end(trial) for trial in state.living()):
            done = Ending.COMPLETE if state.best else Ending.FAILED
        nodes = self.nodes if state.terms.cluster.fixed or not idle else 0
        asked = Wishes(trials=wishes, nodes={0: nodes}, steady=steady)
        return Advice(wishes=asked, sample=sample, reviews=reviews, done=done)

    def _failed_rung(self, trial: Trial) -> SeenRung | None:
        """The highest rung that the trial may not pass, because it is not among the best there."""
        number, eta, early = trial.number, self.eta, self.options.speculative
        for rung in reversed(self.rungs[:-1]):
            # ASHA's rule is for the rung at which the trial stands.
            counts = number in rung.of and (early or rung.iterations == trial.iteration)
            if counts and not rung.is_among_best(number, eta, speculative=early):
                return rung
        return None

    def _let_in(self, state: State) -> int:
        """Promote or start trials while slots are free and the deadline allows; returns how many to draw."""
        least, left_s = state.terms.gangs.min_slots, self._time_left_s(state)
        lent = self.sizes.lent(state)
        free = self._free(state) + sum(lent.values())
        entering = 0
        while (
            free - entering * least >= least
            and self._can_be_placed(entering + 1, state)
            and self.entrance.is_open(self.live, left_s, state)
        ):
            promoted = self._promotable(state)
            if promoted is not None:
                self._enter(promoted, state)
                free -= least
            elif (
                not self.sampling
                and entering < self.trials_left
                and self.entrance.suits_newcomers(left_s, state)
            ):
                entering += 1
            else:
                break
        sample = self._draw(entering)
        for number, more in lent.items():
            if self._free(state) >= 0:
                break
            self.live[number] -= more
        return sample

    def _draw(self, trials: int) -> int:
        if trials:
            self.sampling = trials
            self.trials_left -= trials
        return trials

    def _use_idle(self, state: State) -> int:
        """Train runners-up on slots that the race does not need, near the end; returns how many to draw."""
        left_s, least = self._time_left_s(state), state.terms.gangs.min_slots
        if math.isinf(left_s):
            return 0
        free = self.runners_up.fill(self._free(state), left_s, self.live, state)
        full = self.sampling or free < least or self.options.entrance != "deadline"
        if full or not self.entrance.suits_newcomers(left_s, state):
            return 0
        return self._draw(int(min(free // least, self.trials_left)))

    def _can_be_placed(self, more: int, state: State) -> bool:
        """Whether the free slots hold more gangs; not always, if the smallest gangs do not fill a node."""
        cluster, least = state.terms.cluster, state.terms.gangs.min_slots
        if cluster.slots_per_node % least == 0:
            return True
        gangs = [*self.live.values(), *[least] * (more + self.sampling)]
        return RoundCosts.of(state.terms).nodes_for(gangs) <= self._slots(state) // cluster.slots_per_node

    def _promotable(self, state: State) -> TrialId | None:
        """Take the best waiting trial off the highest rung that has one to promote."""
        for rung in reversed(self.rungs):
            for place, (_, number) in enumerate(rung.waiting):
                if not rung.is_among_best(number, self.eta, speculative=False):
                    break  # nor are those behind it
                trial = state.trials[number]
                resumed = number in self.runners_up.training
                if (trial.activity is None or resumed) and not trial.phase.is_over:
                    del rung.waiting[place]
                    return number
        return None

    def _enter(self, number: TrialId, state: State) -> None:
        self.runners_up.drop(number)
        self.sizes.enter(state.trials[number], state.terms.gangs.min_slots)

    def _leave(self, number: TrialId) -> None:
        del self.live[number]
        self.entrance.left(number)

    # Slots, time and wishes.

    def _divide(self, state: State) -> dict[str, float]:
        """Returns the next review."""
        again_s = self.sizes.divide(self._slots(state), self.sampling, self._time_left_s(state), state)
        return {} if math.isinf(again_s) else {_REVIEW: again_s}

    def _free(self, state: State) -> int:
        """Slots that no trial of the race holds or is drawn for."""
        return self.sizes.free(self._slots(state), self.sampling, state)

    def _slots(self, state: State) -> int:
        return nodes_at_hand(state, self.nodes) * state.terms.cluster.slots_per_node

    def _time_left_s(self, state: State) -> float:
        """Until the deadline, or until the money for these nodes is spent."""
        left_s, money = state.time_left_s, state.money_left_usd
        rate = self.nodes * state.terms.cluster.node_usd_per_s
        paid_s = math.inf if money is None or rate <= 0.0 else money / rate
        return paid_s if left_s is None else min(left_s, paid_s)

    def _wish(self, number: TrialId, slots: int, state: State) -> Wish:
        passed = bisect_right(self._levels, state.trials[number].iteration)
        goal = self._levels[passed] if passed < len(self._levels) else self.max_iterations
        return Wish(number, slots, goal, final=goal == self.max_iterations)


def _reports_its_end(trial: Trial) -> bool:
    """Whether an event follows when its gang is dissolved; one that has not begun just stops."""
    is_kept = trial.activity is Activity.WAITING and trial.stays
    return trial.activity not in (None, Activity.STARTING) and not is_kept


def create(setup: PolicySetup) -> HyperSched:
    return HyperSched(setup.read(HyperSchedOptions))
