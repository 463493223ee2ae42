"""Population Based Training (Jaderberg et al. 2017; Cerebro section 4.2): the worst copy the best, and vary.

All trials of a population train `interval` iterations. Then the worst `quantile` and the failed ones stop,
and each is replaced by a fork of one of the best `quantile`: its last checkpoint, its configuration with
changes. A barrier between generations makes sure that trials are compared after equal training, also where
they take turns on few slots.
"""

from __future__ import annotations

import random
from typing import Annotated

from elastune.core import events
from elastune.core.commands import Ending
from elastune.core.policy import Policy, Vetoed
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from elastune.model.quantities import Count, ExpectedError, Iterations, Needed, ParsedBy, probability
from elastune.policies.costs import even_slots, gangs_on, nodes_at_hand, nodes_for_trials, steady_nodes
from elastune.policies.extending import refuse_complete, refuse_fixed
from elastune.policies.registry import PolicySetup
from elastune.policies.rungs import is_at_barrier


def _quantile(value: object) -> float:
    share = probability(value)
    if share > 0.5:
        raise ExpectedError("a number above 0 and up to 0.5, such as 0.25")
    return share


class PbtOptions:
    trials: Count = 8
    interval: Iterations = 5
    quantile: Annotated[float, ParsedBy(_quantile)] = 0.25
    max_iterations: Annotated[Iterations, Needed("the iterations that every trial trains, such as 50")]


class Pbt(Policy):
    def __init__(self, options: PbtOptions, *, seed: int) -> None:
        self.size = options.trials
        self.interval = options.interval
        self.max_iterations = options.max_iterations
        self.quantile = options.quantile
        self.random = random.Random(seed)  # noqa: S311
        self.generation = 0
        self.population: list[TrialId] = []
        self.expected = options.trials  # trials, new or forked, that are being drawn
        self.meeting = False
        self.through = 0  # this many of the population, from the front, are known to be at the barrier
        self.wishes: dict[TrialId, Wish] = {}  # of this generation; the core compares them by identity
        self.size_wished = 0, 0  # slots of a gang, and nodes

    def start(self, state: State) -> Advice:
        return self._go_on(state, sample=self.size)

    def handle(self, event: events.AnyEvent | Vetoed, state: State) -> Advice | None:
        match event:
            case events.TrialsSampled():
                self.population += [trial for trial, _ in event.trials]
                self.expected = 0 if event.exhausted else self.expected - len(event.trials)
                # While trials wait for slots, new ones would wait behind them: the last one brings all.
                waits = self.expected and any(pool_state.queue for pool_state in state.pools.values())
                return None if waits else self._go_on(state)
            case events.Progressed() | events.TrialPaused() if self._is_met(event.trial, state):
                if state.trials[event.trial].phase.is_over:
                    self.wishes.pop(event.trial, None)
                return self._go_on(state) if self._is_news(state) else None
            case events.NodeLost() | events.Resumed() | events.NodesRefused() | Vetoed():
                return self._go_on(state)
            case events.RunExtended() | events.TrialStopAsked():
                return self._go_on(state)
            case events.BarrierPassed():
                return self._next_generation(state)
            case _:
                return None

    def refuses(self, request: events.RunExtended | events.ConfigAdded, state: State) -> str | None:
        if isinstance(request, events.ConfigAdded) or request.more_trials:
            return refuse_fixed("the population of pbt")
        return refuse_complete(state)

    @property
    def _goal(self) -> int:
        return min(self.max_iterations, (self.generation + 1) * self.interval)

    def _is_met(self, number: TrialId, state: State) -> bool:
        return is_at_barrier(state.trials[number], self._goal)

    def _have_all_met(self, state: State) -> bool:
        """Trials at the barrier stay there, so each is asked once."""
        goal, population = self._goal, self.population
        while self.through < len(population) and is_at_barrier(state.trials[population[self.through]], goal):
            self.through += 1
        return self.through == len(population)

    def _go_on(self, state: State, *, sample: int = 0) -> Advice:
        barriers: tuple[tuple[int, int], ...] = ()
        if not (self.expected or self.meeting) and self._have_all_met(state):
            self.meeting, barriers = True, ((0, self.generation),)
        return Advice(wishes=self._wishes(state), sample=sample, barriers=barriers)

    def _is_news(self, state: State) -> bool:
        """Whether all have met, or another size is wanted now that one more has: a population of thousands is
        not wished for again at each of them."""
        all_met = not (self.expected or self.meeting) and self._have_all_met(state)
        return all_met or self._size_wanted(state, len(self.wishes)) != self.size_wished

    def _wishes(self, state: State) -> Wishes:
        trials = state.trials
        living = [number for number in self.population if not trials[number].phase.is_over]
        slots, nodes = size = self._size_wanted(state, len(living))
        known = self.wishes if slots == self.size_wished[0] else {}
        goal = self._goal
        final = goal == self.max_iterations
        self.size_wished = size
        self.wishes = {n: known.get(n) or Wish(n, slots, goal, final=final) for n in living}
        return Wishes(trials=tuple(self.wishes.values()), nodes={0: nodes})

    def _size_wanted(self, state: State, living: int) -> tuple[int, int]:
        most = steady_nodes(state, iterations=self.max_iterations)
        at_hand = nodes_at_hand(state, most)
        slots = even_slots(at_hand, self.size, state)
        busy = min(gangs_on(at_hand, slots, state.terms.cluster), living + self.expected) or 1
        return slots, min(most, nodes_for_trials(state, busy, slots, most))

    def _next_generation(self, state: State) -> Advice:
        self.meeting = False
        living = [state.trials[number] for number in self.population]
        ranked = state.rank([trial for trial in living if not trial.phase.is_over and trial.values])
        self.generation += 1
        self.through, self.wishes = 0, {}
        if not ranked or self.generation * self.interval >= self.max_iterations:
            return Advice(done=Ending.COMPLETE if state.best else Ending.FAILED)
        parents, losers = self._choose(ranked)
        missing = len(losers) + (self.size - len(ranked) if ranked[0].saved else 0)
        forks = tuple(self.random.choice(parents).number for _ in range(missing))
        lost = {trial.number for trial in losers}
        self.population = [trial.number for trial in ranked if trial.number not in lost]
        self.expected = len(forks)
        return Advice(wishes=self._wishes(state), stop=tuple(trial.number for trial in losers), fork=forks)

    def _choose(self, ranked: list[Trial]) -> tuple[list[Trial], list[Trial]]:
        """The trials to copy and the trials to stop; none is both."""
        count = min(max(1, int(self.quantile * len(ranked))), len(ranked) // 2)
        saved = [trial for trial in ranked[: max(1, count)] if trial.saved]
        return saved, ranked[len(ranked) - count :] if saved else []


def create(setup: PolicySetup) -> Pbt:
    return Pbt(setup.read(PbtOptions), seed=setup.seed)
