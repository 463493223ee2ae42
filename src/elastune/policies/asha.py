"""ASHA in its pausing and promoting form (Li et al. 2020; HyperSched sections 3 and 4).

A trial trains to the next rung, is paused there, and is promoted when it is among the best 1/eta of those
that reached the rung. Free slots go to a promotion at the highest rung that has one, else to a new trial.
There are no barriers; where models hop, trials are promoted when a round is over, as none can go on before
that. Each rung has its own queue, so a waiting trial never passes a lower rung again (see
DESIGN section 11 on `start_next_trial`). Deviation: when nothing else is left to do, the best trial goes on
until one is fully trained.
"""

from __future__ import annotations

import heapq
import math
from itertools import pairwise

from elastune.core.commands import Ending
from elastune.core.events import (
    AnyEvent,
    ConfigAdded,
    NodeLost,
    Progressed,
    Resumed,
    RunExtended,
    TrialPaused,
    TrialsSampled,
    TrialStopAsked,
)
from elastune.core.policy import Policy, Vetoed
from elastune.core.state import State
from elastune.core.trials import Phase, Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from elastune.model.metric import Mode
from elastune.model.quantities import Count
from elastune.policies.costs import (
    is_in_round,
    nodes_at_hand,
    nodes_for_trials,
    room_for_trials,
    steady_nodes,
)
from elastune.policies.extending import more_trials, refuse_complete, refuse_endless
from elastune.policies.registry import PolicySetup
from elastune.policies.rungs import HalvingOptions, Rung, rung_levels


class AshaOptions(HalvingOptions):
    """Without `trials`, new trials start as long as the limits and the sampler allow."""

    trials: Count | None = None


class Asha(Policy):
    def __init__(self, options: AshaOptions) -> None:
        self.eta = options.eta
        self.trials_left = math.inf if options.trials is None else options.trials
        levels = rung_levels(options.min_iterations, options.max_iterations, options.eta)
        self.rungs = [Rung(level) for level in levels]
        self.top = len(self.rungs) - 1
        self.rung_of: dict[TrialId, int] = {}  # the next rung of each trial in training
        self.wishes: list[dict[TrialId, Wish]] = [{} for _ in self.rungs]  # by the rung to be reached
        self.unsaved: dict[TrialId, int] = {}  # the rung of each trial that has reached it and still saves
        self.sampling = 0
        self.has_finished = False  # a trial is fully trained
        reached = [0, *levels]
        # What a trial trains on average, if every rung promotes its share.
        self.usual_iterations = sum(
            (after - before) / self.eta**rung for rung, (before, after) in enumerate(pairwise(reached))
        )
        self.holds_back = False  # models hop: promotions are decided when the round is over

    def start(self, state: State) -> Advice:
        return self._fill(state)

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        advice = self._handle(event, state)
        if advice is None and self.holds_back and not is_in_round(state):
            return self._fill(state)
        return advice

    def _handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        match event:
            case TrialsSampled():
                self.sampling = 0
                if event.exhausted:
                    self.trials_left = 0
                for trial, _ in event.trials:
                    self._send(trial, 0, state)
                return self._fill(state)
            case TrialPaused():
                self.unsaved.pop(event.trial, None)
                return self._trial_moved(state.trials[event.trial], state)
            case Progressed() | TrialStopAsked():
                return self._trial_moved(state.trials[event.trial], state)
            case NodeLost() | Resumed():
                return self._gangs_lost(state)
            case RunExtended() | ConfigAdded():
                self.trials_left = more_trials(self.trials_left, event)
                return self._gangs_lost(state) or self._fill(state)
            case _:
                return None

    def refuses(self, request: RunExtended | ConfigAdded, state: State) -> str | None:
        if isinstance(request, ConfigAdded) or request.more_trials:
            return None if isinstance(request, ConfigAdded) else refuse_endless(self.trials_left)
        return refuse_complete(state, takes_trials=not math.isinf(self.trials_left))

    def _trial_moved(self, trial: Trial, state: State) -> Advice | None:
        rung = self.rung_of.get(trial.number)
        if rung is None:
            return None
        level = self.rungs[rung]
        if not trial.phase.is_over:
            if not trial.has_done(level.iterations):
                return None
            if rung == self.top or trial.returned:
                return None  # the last save is pending and may be lost with the node
            value = trial.values[-1]
            level.record(-value if state.terms.mode is Mode.MAX else value, trial.number)
            self.unsaved[trial.number] = rung
        elif trial.phase is Phase.FINISHED:
            self.has_finished = True
        del self.rung_of[trial.number], self.wishes[rung][trial.number]
        self.holds_back = is_in_round(state)
        return None if self.holds_back else self._fill(state)

    def _gangs_lost(self, state: State) -> Advice | None:
        """Repeat the way to its rung for each trial whose gang was lost before the save there was durable."""
        over = [trial for trial in self.rung_of if state.trials[trial].phase.is_over]
        self.has_finished |= any(state.trials[trial].phase is Phase.FINISHED for trial in over)
        for number in over:
            del self.wishes[self.rung_of.pop(number)][number]
        lost = [t for t in self.unsaved if state.trials[t].activity is None and t not in self.rung_of]
        for number in lost:
            rung, trial = self.unsaved.pop(number), state.trials[number]
            if not (trial.phase.is_over or trial.has_done(self.rungs[rung].iterations)):
                self._send(number, rung, state)
        return self._fill(state) if lost or over else None

    def _fill(self, state: State) -> Advice:
        """Keep as many trials in training as the nodes at hand hold; higher rungs come first."""
        slots, self.holds_back = state.terms.gangs.min_slots, False
        most = steady_nodes(state, iterations=self.rungs[self.top].iterations, stops=len(self.rungs))
        nodes = nodes_at_hand(state, most)
        waiting = len(self.rung_of) + self.trials_left
        room = room_for_trials(state, nodes, slots, waiting=waiting, iterations=self.usual_iterations)
        while (len(self.rung_of) < room or state.terms.data is not None) and self._promote(state):
            pass
        sample = 0
        if not self.sampling:
            self.sampling = sample = int(max(0, min(room - len(self.rung_of), self.trials_left)))
            self.trials_left -= sample
        if not (self.rung_of or self.sampling):
            self._finish(state)
        busy = len(self.rung_of) + self.sampling
        wishes: list[Wish] = []
        for wished in reversed(self.wishes):
            wishes += wished.values()
        return Advice(
            wishes=Wishes(trials=tuple(wishes), nodes={0: nodes_for_trials(state, busy, slots, most)}),
            sample=sample,
            done=None if busy else Ending.COMPLETE if state.best or self.unsaved else Ending.FAILED,
        )

    def _send(self, trial: TrialId, rung: int, state: State) -> None:
        before = self.rung_of.get(trial)
        if before is not None:
            del self.wishes[before][trial]
        self.rung_of[trial] = rung
        goal = self.rungs[rung].iterations
        self.wishes[rung][trial] = Wish(trial, state.terms.gangs.min_slots, goal, final=rung == self.top)

    def _promote(self, state: State) -> bool:
        for rung in range(self.top - 1, -1, -1):
            trial = self.rungs[rung].promote(self.eta)
            while trial is not None and state.trials[trial].phase.is_over:  # it was stopped while it waited
                trial = self.rungs[rung].promote(self.eta)
            if trial is not None:
                self._send(trial, rung + 1, state)
                return True
        return False

    def _finish(self, state: State) -> None:
        """No trial is left to compare with: the best of the highest rung goes on until one is trained."""
        # 8 trials by thirds are 8, 2 and none; ASHA as published would stop there.
        if self.has_finished:
            return
        for number in range(self.top - 1, -1, -1):
            waiting = self.rungs[number].waiting
            while waiting:
                _, trial = heapq.heappop(waiting)
                if not state.trials[trial].phase.is_over:
                    self._send(trial, number + 1, state)
                    return


def create(setup: PolicySetup) -> Asha:
    return Asha(setup.read(AshaOptions))
