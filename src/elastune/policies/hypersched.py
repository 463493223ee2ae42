"""HyperSched: the best model by a deadline on the machines there are (Liaw et al. 2019, Algorithm 3).

ASHA that knows when it has to be done. Each idea can be switched off, for its ablation:

- `speculative`: the first to reach a rung go on; a trial is paused when it is not among the best 1/eta of
  those *seen*, also later, when better ones arrive. Off: it is paused and waits to be promoted, as in ASHA.
- `entrance: deadline`: a trial enters (new, or promoted) while `min(R T_a, eta t_furthest)` is less than the
  time left. `always`: whenever there is room; a number: in that share of the time.
- `reallocate`: slots that nobody enters for go to the trials in training, evenly, the best first; a gang is
  resized only if `H' (T - T_0) > H T`, and not within `cooldown` iterations of the last time.
- `profiled`: T_0 and the throughput H are the measured ones. Off: no overhead and linear scaling.

Every rung has a queue of its own (read literally, `start_next_trial` sends a trial that waits at a higher
rung through a lower one for ever), and section 4.2's sentence on entering is reversed; Algorithm 3 is right.
The time left is that of the money, where it runs out first.
"""

from __future__ import annotations

import math
from typing import Annotated

from elastune.core.commands import Ending
from elastune.core.events import (
    AnyEvent,
    GangStarted,
    NodeLost,
    NodesReady,
    NodesRefused,
    Progressed,
    Resumed,
    TimerFired,
    TrialPaused,
    TrialsSampled,
)
from elastune.core.policy import Policy, Progress, Upcoming, Vetoed
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from elastune.model.metric import Mode
from elastune.model.quantities import Count, Eta, ExpectedError, Flag, Iterations, Natural, ParsedBy, fraction
from elastune.policies.costs import RoundCosts, nodes_at_hand, steady_nodes
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
    """Without `max_iterations` no trial is stopped for having trained enough."""

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
        self.speculative = options.speculative
        self.entrance = options.entrance
        self.reallocates = options.reallocate
        self.profiled = options.profiled
        self.cooldown = options.cooldown
        levels = rung_levels(options.min_iterations, self.max_iterations, self.eta)
        self.rungs = [SeenRung(level) for level in levels]
        self.live: dict[TrialId, int] = {}
        """Trials in training, and the slots wished for each."""
        self.resized_at: dict[TrialId, int] = {}
        """The iteration at which a trial got its present slots."""
        self.trained_s: dict[TrialId, float] = {}
        self.since_s: dict[TrialId, float] = {}
        self.sampling = 0
        self.nodes = 0

    def start(self, state: State) -> Advice:
        self.nodes = steady_nodes(state, iterations=min(self.max_iterations, 1_000))
        return self._schedule(state)

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        match event:
            case TrialsSampled():
                self.sampling = 0
                if event.exhausted:
                    self.trials_left = 0
                for trial, _ in event.trials:
                    self._enter(trial, state)
                return self._schedule(state)
            case GangStarted():
                self.since_s[event.trial] = event.at_s
                return None
            case Progressed():
                self._count_time(event)
                arrived = self._arrived(state.trials[event.trial], state)
                return self._schedule(state) if arrived else None
            case TrialPaused() | NodeLost() | NodesReady() | NodesRefused() | Resumed() | Vetoed():
                return self._schedule(state)
            case TimerFired(timer=timer) if timer == _REVIEW:
                return self._schedule(state)
            case _:
                return None

    def progress(self, state: State) -> Progress:
        if _REVIEW not in state.timers:
            return Progress()
        text = "the slots are shared out again, by how the trials do"
        return Progress(upcoming=(Upcoming(at_s=state.timers[_REVIEW], text=text),))

    # Who trains.

    def _arrived(self, trial: Trial, state: State) -> bool:
        """Record the trial at the rungs that it has reached; True: something may have changed."""
        if trial.phase.is_over:
            return trial.number in self.live
        sign = -1.0 if state.terms.mode is Mode.MAX else 1.0
        news = False
        for rung in self.rungs:
            if trial.iteration < rung.iterations:
                break
            if trial.number not in rung.of:
                rung.record(trial.number, sign * trial.values[rung.iterations - 1])
                news = True
        return news

    def _schedule(self, state: State) -> Advice:
        """Pause who has fallen behind, let in who may come, share what is left."""
        for number in tuple(self.live):
            trial = state.trials[number]
            if trial.phase.is_over:
                self._leave(number)
            elif (rung := self._failed_rung(trial)) is not None:
                rung.pause(number)
                self._leave(number)
        sample = self._let_in(state)
        reviews = self._share(state) if self.reallocates and not sample else {}
        wishes = tuple(self._wish(number, slots, state) for number, slots in self._best_first(state))
        idle = not (self.live or self.sampling)
        done = None
        if idle and not any(trial.activity is not None for trial in state.living()):
            done = Ending.COMPLETE if state.best else Ending.FAILED
        nodes = self.nodes if state.terms.cluster.fixed or not idle else 0
        return Advice(
            wishes=Wishes(trials=wishes, nodes={0: nodes}, steady=self._is_steady(state)),
            sample=sample,
            reviews=reviews,
            done=done,
        )

    def _is_steady(self, state: State) -> bool:
        """While all have the fewest slots nobody moves, which spares the placement controller."""
        least = state.terms.gangs.min_slots
        return all(slots == least for slots in self.live.values())

    def _failed_rung(self, trial: Trial) -> SeenRung | None:
        """The highest rung at which the trial is not among the best, if it should not be past it."""
        reached = [rung for rung in self.rungs[:-1] if trial.number in rung.of]
        if not self.speculative:  # ASHA's rule is for the rung at which the trial stands
            reached = [rung for rung in reached if rung.iterations == trial.iteration]
        for rung in reversed(reached):
            if not rung.is_among_best(trial.number, self.eta, speculative=self.speculative):
                return rung
        return None

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
        """Where gangs of the fewest slots do not fill a node, free slots are not always of use."""
        cluster, least = state.terms.cluster, state.terms.gangs.min_slots
        if cluster.slots_per_node % least == 0:
            return True
        gangs = [*self.live.values(), *[least] * (more + self.sampling)]
        return RoundCosts.of(state.terms).nodes_for(gangs) <= self._slots(state) // cluster.slots_per_node

    def _may_enter(self, state: State) -> bool:
        left_s = self._time_left_s(state)
        if isinstance(self.entrance, float):
            deadline = state.limits.deadline_s
            return deadline is None or state.now_s < self.entrance * deadline
        if not self.live:  # nobody to lose by it, if there is time for one more to reach a rung
            rung_s = self._overhead_s(state) + self.rungs[0].iterations * self._epoch_s(1, state)
            return not state.trials or rung_s < left_s
        if self.entrance == "always":
            return True
        epoch_s = state.terms.profile.iteration.mean
        furthest = max(self.live, key=lambda number: (state.trials[number].iteration, -number))
        longest_s = self.trained_s.get(furthest, 0.0)
        return min(self.max_iterations * epoch_s, self.eta * longest_s) < left_s

    def _promotable(self, state: State) -> TrialId | None:
        """The best of those that wait at the highest rung that has one to promote."""
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
        """Evenly, the best first; whoever would gain by it is resized. Returns when to look again."""
        if not self.live:
            return {}
        left_s, again_s = self._time_left_s(state), math.inf
        ranked = self._best_first(state)
        shares = self._shares(len(ranked) + self.sampling, state)  # those on their way have theirs, too
        free = self._slots(state) - sum(self.live.values()) - self.sampling * state.terms.gangs.min_slots
        for (number, held), even in zip(ranked, shares, strict=False):
            share = min(even, held + max(0, free))
            if share <= held or not self._pays(held, share, left_s, state):
                continue
            owed = self.cooldown - (state.trials[number].iteration - self.resized_at[number])
            if owed < 0 or state.trials[number].activity is None:
                self.live[number] = share
                free -= share - held
                self.resized_at[number] = state.trials[number].iteration
            else:
                again_s = min(again_s, (owed + 1) * self._epoch_s(held, state))
        return {} if math.isinf(again_s) else {_REVIEW: state.now_s + again_s}

    def _shares(self, count: int, state: State) -> list[int]:
        """Slots for each of so many, the best first.

        Where the nodes cannot hold even shares without scattering gangs (12 of 5 slots on 16 nodes of 4),
        they grow in steps of what divides a node and of whole nodes.
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
        return state.terms.profile.speedup.at(slots) if self.profiled else float(slots)

    def _overhead_s(self, state: State) -> float:
        profile = state.terms.profile
        if not self.profiled:
            return 0.0
        return profile.save.mean + profile.startup.mean + 2 * profile.transfer_s

    def _epoch_s(self, slots: int, state: State) -> float:
        profile = state.terms.profile
        return profile.iteration.mean / profile.speedup.at(slots)

    def _slots(self, state: State) -> int:
        return nodes_at_hand(state, self.nodes) * state.terms.cluster.slots_per_node

    # Time.

    def _time_left_s(self, state: State) -> float:
        """Until the deadline, or until the money for these nodes is gone."""
        left_s, money = state.time_left_s, state.money_left_usd
        times = [math.inf if left_s is None else left_s]
        rate = self.nodes * state.terms.cluster.node_usd_per_s
        if money is not None and rate > 0.0:
            times.append(money / rate)
        return min(times)

    def _count_time(self, event: Progressed) -> None:
        if event.rows and event.trial in self.since_s:
            last_s = event.rows[-1].at_s
            before = self.trained_s.get(event.trial, 0.0)
            self.trained_s[event.trial] = before + max(0.0, last_s - self.since_s[event.trial])
            self.since_s[event.trial] = last_s

    # Wishes.

    def _best_first(self, state: State) -> list[tuple[TrialId, int]]:
        """By the last value; the further trained first among those that have none."""
        ranked = state.rank([state.trials[number] for number in self.live])
        return [(trial.number, self.live[trial.number]) for trial in ranked]

    def _wish(self, number: TrialId, slots: int, state: State) -> Wish:
        done = state.trials[number].iteration
        goal = next((rung.iterations for rung in self.rungs if rung.iterations > done), self.max_iterations)
        return Wish(number, slots, goal, final=goal == self.max_iterations)


def create(setup: PolicySetup) -> HyperSched:
    return HyperSched(setup.read(HyperSchedOptions))
