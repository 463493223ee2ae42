"""HyperSched: ASHA that finds the best model by a deadline (Liaw et al. 2019, Algorithm 3).

Each idea can be switched off for its ablation:

- `speculative`: the first to reach a rung go on; a trial is paused when it is not among the best 1/eta of
  those *seen*, also later, when better ones arrive. Off: it is paused and waits to be promoted, as in ASHA.
- `entrance: deadline`: a trial enters (new, or promoted) while `min(R T_a, eta t_furthest)` is less than the
  time left. `always`: whenever there is room; a number: in that share of the time.
- `reallocate`: slots for which no trial enters go to the trials in training, evenly, the best first; a gang
  is resized only if `H' (T - T_0) > H T`, and not within `cooldown` iterations of the last resize.
- `profiled`: T_0 and the throughput H are measured. Off: no overhead and linear scaling.

Every rung has its own queue (read literally, `start_next_trial` sends a trial that waits at a higher rung
through a lower one for ever), and section 4.2's sentence on entering is reversed; Algorithm 3 is right. If
the money runs out before the deadline, it sets the time left.
"""

from __future__ import annotations

import math
from typing import Annotated

from elastune.core import events
from elastune.core.commands import Ending
from elastune.core.policy import Policy, Progress, Upcoming, Vetoed
from elastune.core.state import State
from elastune.core.trials import Activity, Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from elastune.model.metric import Mode
from elastune.model.quantities import Count, Eta, ExpectedError, Flag, Iterations, Natural, ParsedBy, fraction
from elastune.policies.costs import RoundCosts, nodes_at_hand, steady_nodes
from elastune.policies.extending import more_trials, refuse_complete, refuse_endless
from elastune.policies.registry import PolicySetup
from elastune.policies.rungs import HalvingOptions, SeenRung, rung_levels

_REVIEW = "hypersched:review"


def _entrance(value: object) -> str | float:
    if value in ("deadline", "always"):
        return str(value)
    try:
        return fraction(value)
    except ExpectedError:
        expected = "deadline, always, or the share of the time in which trials may enter, such as 0.5"
        raise ExpectedError(expected) from None


class HyperSchedOptions(HalvingOptions):
    """Without `max_iterations` no trial ends as fully trained."""

    max_iterations: Iterations = 1_000_000_000
    eta: Eta = 4
    trials: Count | None = None
    speculative: Flag = True
    entrance: Annotated[str | float, ParsedBy(_entrance)] = "deadline"
    reallocate: Flag = True
    profiled: Flag = True
    cooldown: Natural = 2


class HyperSched(Policy):
    def __init__(self, options: HyperSchedOptions) -> None:
        self.eta = options.eta
        self.max_iterations = options.max_iterations
        self.trials_left: float = options.trials or math.inf
        self.options = options
        levels = rung_levels(options.min_iterations, self.max_iterations, self.eta)
        self.rungs = [SeenRung(level) for level in levels]
        self.live: dict[TrialId, int] = {}  # trials in training, and the slots wished for each
        self.resized_at: dict[TrialId, int] = {}  # the iteration at which a trial got its present slots
        self.trained_s: dict[TrialId, float] = {}
        self.since_s: dict[TrialId, float] = {}
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
        best = any(rung.is_among_best(number, self.eta, speculative=False) for rung, number in waiting)
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
                self.since_s[event.trial] = event.at_s
                return None
            case events.Progressed():
                self._count_time(event)
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
        if trial.phase.is_over:
            return trial.number in self.live
        sign = -1.0 if state.terms.mode is Mode.MAX else 1.0
        reached = [r for r in self.rungs if r.iterations <= trial.iteration and trial.number not in r.of]
        for rung in reached:
            rung.record(trial.number, sign * trial.values[rung.iterations - 1])
        return bool(reached)

    def _schedule(self, state: State) -> Advice:
        """Pause trials that have fallen behind, let others enter, divide the slots that are left."""
        for number in tuple(self.live):
            trial = state.trials[number]
            if trial.phase.is_over:
                self._leave(number)
            elif (rung := self._failed_rung(trial)) is not None:
                rung.pause(number)
                self._leave(number)
        sample = self._let_in(state)
        reviews = self._share(state) if self.options.reallocate and not sample else {}
        wishes = tuple(self._wish(number, slots, state) for number, slots in self._best_first(state))
        # With the fewest slots for all no gang moves, which spares the placement controller.
        steady = all(slots == state.terms.gangs.min_slots for slots in self.live.values())
        idle = not (self.live or self.sampling)
        done = None
        if idle and not any(_reports_its_end(trial) for trial in state.living()):
            done = Ending.COMPLETE if state.best else Ending.FAILED
        nodes = self.nodes if state.terms.cluster.fixed or not idle else 0
        return Advice(
            wishes=Wishes(trials=wishes, nodes={0: nodes}, steady=steady),
            sample=sample,
            reviews=reviews,
            done=done,
        )

    def _failed_rung(self, trial: Trial) -> SeenRung | None:
        """The highest rung that the trial may not pass, because it is not among the best there."""
        reached = [rung for rung in self.rungs[:-1] if trial.number in rung.of]
        if not self.options.speculative:  # ASHA's rule is for the rung at which the trial stands
            reached = [rung for rung in reached if rung.iterations == trial.iteration]
        number, eta, early = trial.number, self.eta, self.options.speculative
        failed = (r for r in reversed(reached) if not r.is_among_best(number, eta, speculative=early))
        return next(failed, None)

    def _let_in(self, state: State) -> int:
        """Promote or start trials while slots are free and the deadline allows; returns how many to draw."""
        least = state.terms.gangs.min_slots
        free = self._slots(state) - sum(self.live.values()) - self.sampling * least
        entering = 0
        while (
            free - entering * least >= least
            and self._can_be_placed(entering + 1, state)
            and self._may_enter(state)
        ):
            promoted = self._promotable(state)
            if promoted is not None:
                self._enter(promoted, state)
                free -= least
            elif not self.sampling and entering < self.trials_left:
                entering += 1
            else:
                break
        if entering:
            self.sampling = entering
            self.trials_left -= entering
        return entering

    def _can_be_placed(self, more: int, state: State) -> bool:
        """Whether the free slots hold more gangs; not always, if the smallest gangs do not fill a node."""
        cluster, least = state.terms.cluster, state.terms.gangs.min_slots
        if cluster.slots_per_node % least == 0:
            return True
        gangs = [*self.live.values(), *[least] * (more + self.sampling)]
        return RoundCosts.of(state.terms).nodes_for(gangs) <= self._slots(state) // cluster.slots_per_node

    def _may_enter(self, state: State) -> bool:
        left_s = self._time_left_s(state)
        if isinstance(self.options.entrance, float):
            deadline = state.limits.deadline_s
            return deadline is None or state.now_s < self.options.entrance * deadline
        if not self.live:  # no trial loses slots by it; enter if there is time to reach a rung
            rung_s = self._overhead_s(state) + self.rungs[0].iterations * self._epoch_s(1, state)
            return not state.trials or rung_s < left_s
        if self.options.entrance == "always":
            return True
        epoch_s = state.terms.profile.iteration.mean
        furthest = max(self.live, key=lambda number: (state.trials[number].iteration, -number))
        longest_s = self.trained_s.get(furthest, 0.0)
        return min(self.max_iterations * epoch_s, self.eta * longest_s) < left_s

    def _promotable(self, state: State) -> TrialId | None:
        """Take the best waiting trial off the highest rung that has one to promote."""
        for rung in reversed(self.rungs):
            for place, (_, number) in enumerate(rung.waiting):
                if not rung.is_among_best(number, self.eta, speculative=False):
                    break  # nor are those behind it
                trial = state.trials[number]
                if trial.activity is None and not trial.phase.is_over:
                    del rung.waiting[place]
                    return number
        return None

    def _enter(self, number: TrialId, state: State) -> None:
        self.live[number] = state.terms.gangs.min_slots
        self.resized_at[number] = state.trials[number].iteration

    def _leave(self, number: TrialId) -> None:
        del self.live[number]
        self.since_s.pop(number, None)

    # Slots.

    def _share(self, state: State) -> dict[str, float]:
        """Divide the slots evenly, the best first, and resize gangs that gain. Returns the next review."""
        if not self.live:
            return {}
        left_s, again_s = self._time_left_s(state), math.inf
        ranked = self._best_first(state)
        shares = self._shares(len(ranked) + self.sampling, state)  # trials being drawn have a share, too
        free = self._slots(state) - sum(self.live.values()) - self.sampling * state.terms.gangs.min_slots
        for (number, held), even in zip(ranked, shares, strict=False):
            share = min(even, held + max(0, free))
            if share <= held or not self._pays(held, share, left_s, state):
                continue
            owed = self.options.cooldown - (state.trials[number].iteration - self.resized_at[number])
            if owed < 0 or state.trials[number].activity is None:
                self.live[number] = share
                free -= share - held
                self.resized_at[number] = state.trials[number].iteration
            else:
                again_s = min(again_s, (owed + 1) * self._epoch_s(held, state))
        return {} if math.isinf(again_s) else {_REVIEW: state.now_s + again_s}

    def _shares(self, count: int, state: State) -> list[int]:
        """Slots for each of `count` trials, the best first.

        If the nodes cannot hold even shares without scattering gangs (12 of 5 slots on 16 nodes of 4), shares
        grow in steps that divide a node and by whole nodes.
        """
        slots, least = self._slots(state), state.terms.gangs.min_slots
        per_node, nodes_for = state.terms.cluster.slots_per_node, RoundCosts.of(state.terms).nodes_for
        nodes, most = slots // per_node, state.terms.gangs.max_slots or slots
        even = [max(least, min(most, slots // count + (place < slots % count))) for place in range(count)]
        if nodes_for(even) <= nodes:
            return even
        shares = [least] * count
        divisors = [size for size in range(1, per_node) if per_node % size == 0]
        for step in (*divisors, *range(per_node, slots + 1, per_node)):
            for place in range(count):
                larger = [*shares[:place], step, *shares[place + 1 :]]
                if step > most or nodes_for(larger) > nodes:
                    return shares
                shares = larger if step > shares[place] else shares
        return shares

    def _pays(self, held: int, share: int, left_s: float, state: State) -> bool:
        if math.isinf(left_s):
            return self._speed(share, state) > self._speed(held, state)
        after_s = left_s - self._overhead_s(state)
        return self._speed(share, state) * after_s > self._speed(held, state) * left_s

    def _speed(self, slots: int, state: State) -> float:
        return state.terms.profile.speedup.at(slots) if self.options.profiled else float(slots)

    def _overhead_s(self, state: State) -> float:
        profile = state.terms.profile
        overhead_s = profile.save.mean + profile.startup.mean + 2 * profile.transfer_s
        return overhead_s if self.options.profiled else 0.0

    def _epoch_s(self, slots: int, state: State) -> float:
        profile = state.terms.profile
        return profile.iteration.mean / profile.speedup.at(slots)

    def _slots(self, state: State) -> int:
        return nodes_at_hand(state, self.nodes) * state.terms.cluster.slots_per_node

    # Time.

    def _time_left_s(self, state: State) -> float:
        """Until the deadline, or until the money for these nodes is spent."""
        left_s, money = state.time_left_s, state.money_left_usd
        rate = self.nodes * state.terms.cluster.node_usd_per_s
        paid_s = math.inf if money is None or rate <= 0.0 else money / rate
        return paid_s if left_s is None else min(left_s, paid_s)

    def _count_time(self, event: events.Progressed) -> None:
        if event.rows and event.trial in self.since_s:
            last_s = event.rows[-1].at_s
            before = self.trained_s.get(event.trial, 0.0)
            self.trained_s[event.trial] = before + max(0.0, last_s - self.since_s[event.trial])
            self.since_s[event.trial] = last_s

    # Wishes.

    def _best_first(self, state: State) -> list[tuple[TrialId, int]]:
        """By the last value; among those that have none, the furthest trained first."""
        ranked = state.rank([state.trials[number] for number in self.live])
        return [(trial.number, self.live[trial.number]) for trial in ranked]

    def _wish(self, number: TrialId, slots: int, state: State) -> Wish:
        done = state.trials[number].iteration
        goal = next((rung.iterations for rung in self.rungs if rung.iterations > done), self.max_iterations)
        return Wish(number, slots, goal, final=goal == self.max_iterations)


def _reports_its_end(trial: Trial) -> bool:
    """Whether an event follows when its gang is dissolved; one that has not begun just stops."""
    is_kept = trial.activity is Activity.WAITING and trial.stays
    return trial.activity not in (None, Activity.STARTING) and not is_kept


def create(setup: PolicySetup) -> HyperSched:
    return HyperSched(setup.read(HyperSchedOptions))
