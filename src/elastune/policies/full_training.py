"""Random and grid search: every trial trains to the end, in the order in which it was drawn.

The slots are shared evenly, so that as many trials as possible train at once; the others follow as gangs get
free. With one trial it is SEER's baseline `random` (section 6.3): one random configuration on all slots that
the budget pays for until the deadline. The grid is the sampler's.
"""

from __future__ import annotations

import functools
import math

from elastune.core import events
from elastune.core.commands import Ending
from elastune.core.policy import Policy, Vetoed
from elastune.core.state import State
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from elastune.model.quantities import Count, Iterations
from elastune.policies.costs import (
    even_slots,
    gangs_on,
    nodes_at_hand,
    nodes_for_trials,
    room_for_trials,
    steady_nodes,
)
from elastune.policies.extending import more_trials, refuse_complete, refuse_endless
from elastune.policies.registry import PolicySetup

# Iterations per lease of a trial without a last iteration.
_AT_A_TIME = 1_000
_copied = functools.partial(tuple.__new__, Wish)


class FullTrainingOptions:
    trials: Count | None = None
    max_iterations: Iterations | None = None


class FullTraining(Policy):
    def __init__(self, *, trials: int | None, max_iterations: int | None) -> None:
        self.trials = trials
        self.max_iterations = max_iterations
        self.to_draw: float = math.inf if trials is None else trials
        self.training: dict[TrialId, None] = {}
        self.sampling = 0
        self.slots = 1
        self._wishes: dict[TrialId, Wish] = {}

    def start(self, state: State) -> Advice:
        nodes = steady_nodes(state, iterations=self.max_iterations or 1)
        self.slots = even_slots(nodes, self.trials, state) if self.trials else state.terms.gangs.min_slots
        return self._fill(state)

    def handle(self, event: events.AnyEvent | Vetoed, state: State) -> Advice | None:
        match event:
            case events.TrialsSampled():
                self.sampling = 0
                if event.exhausted:
                    self.to_draw = 0
                self.training.update(dict.fromkeys(trial for trial, _ in event.trials))
                return self._fill(state)
            case events.Progressed() | events.TrialPaused():
                trial = state.trials[event.trial]
                stopped = isinstance(event, events.Progressed) and events.has_stopped(event)
                needs_lease = stopped and not trial.is_through(self.max_iterations)
                return self._fill(state) if needs_lease or trial.phase.is_over else None
            case events.RunExtended() | events.ConfigAdded():
                self.to_draw = more_trials(self.to_draw, event)
                return self._fill(state)
            case events.NodeLost() | events.NodesRefused() | Vetoed() | events.Resumed():
                return self._fill(state)
            case events.TrialStopAsked():
                return self._fill(state)
            case _:
                return None

    def refuses(self, request: events.RunExtended | events.ConfigAdded, state: State) -> str | None:
        if isinstance(request, events.ConfigAdded) or request.more_trials:
            return None if isinstance(request, events.ConfigAdded) else refuse_endless(self.to_draw)
        return refuse_complete(state, takes_trials=not math.isinf(self.to_draw))

    def _fill(self, state: State) -> Advice:
        for number in [n for n in self.training if state.trials[n].phase.is_over]:
            del self.training[number]
            self._wishes.pop(number, None)
        cluster = state.terms.cluster
        most = steady_nodes(state, iterations=self.max_iterations or 1)
        at_hand = nodes_at_hand(state, most)
        if not gangs_on(at_hand, self.slots, cluster):  # fewer nodes came than one gang needs
            self.slots = max(state.terms.gangs.min_slots, min(self.slots, at_hand * cluster.slots_per_node))
            self._wishes.clear()
        sample = 0
        if not self.sampling:
            room = self._room(state, at_hand)
            sample = self.sampling = int(max(0, min(room - len(self.training), self.to_draw)))
            self.to_draw -= sample
        busy = len(self.training) + self.sampling
        nodes = nodes_for_trials(state, busy, self.slots, most)
        return Advice(
            wishes=Wishes(trials=self._all_wishes(state), nodes={0: min(nodes, most)}),
            sample=sample,
            done=None if busy else Ending.COMPLETE if state.best else Ending.FAILED,
        )

    def _room(self, state: State, nodes: int) -> float:
        waiting = len(self.training) + self.to_draw
        iterations = math.inf if self.max_iterations is None else self.max_iterations
        return room_for_trials(state, nodes, self.slots, waiting=waiting, iterations=iterations)

    def _all_wishes(self, state: State) -> tuple[Wish, ...]:
        """Few change from one event to the next, and there may be hundreds."""
        if self.max_iterations is None:
            trials = map(state.trials.__getitem__, self.training)
            return tuple(
                Wish(trial.number, self.slots, (trial.iteration // _AT_A_TIME + 1) * _AT_A_TIME)
                for trial in trials
            )
        for number in self.training:
            if number not in self._wishes:
                self._wishes[number] = Wish(number, self.slots, self.max_iterations, final=True)
        wishes = map(self._wishes.__getitem__, self.training)
        if any(pool_state.pool.leaving for pool_state in state.pools.values()):
            # To the core the same object means that nothing has changed for the trial, nodes included.
            wishes = map(_copied, wishes)
        return tuple(wishes)


def create_grid(setup: PolicySetup) -> FullTraining:
    options = setup.read(FullTrainingOptions)
    return FullTraining(trials=options.trials, max_iterations=options.max_iterations)


def create_random(setup: PolicySetup) -> FullTraining:
    options = setup.read(FullTrainingOptions)
    trials = 1 if options.trials is None and options.max_iterations is None else options.trials
    return FullTraining(trials=trials, max_iterations=options.max_iterations)
