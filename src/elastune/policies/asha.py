"""ASHA, the pausing and promoting kind (Li et al. 2020; HyperSched sections 3 and 4).

A trial trains to the next rung, is paused there, and is promoted when it is among the best 1/eta of those
that reached the rung. A free place goes to a promotion at the highest rung that has one, else to a new
trial. There are no barriers. Each rung keeps its own queue: a trial that waits at a rung is never sent
through a lower one again (see DESIGN section 11 on `start_next_trial`).
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from elastune.core import Advice, AnyEvent, Ending, State, Trial, Vetoed, Wish, Wishes
from elastune.core.events import Progressed, TrialPaused, TrialsSampled
from elastune.errors import JobError
from elastune.place import TrialId
from elastune.policies.setup import PolicySetup
from elastune.spec.mode import Mode


@dataclass(slots=True)
class Rung:
    """Trials that trained `iterations` iterations, and which of them wait for promotion."""

    iterations: int
    reached: list[tuple[float, TrialId]] = field(default_factory=list)
    """Best first; values are negated where more is better."""
    waiting: list[tuple[float, TrialId]] = field(default_factory=list)
    """A heap of those not promoted."""

    def record(self, score: float, trial: TrialId) -> None:
        bisect.insort(self.reached, (score, trial))
        heapq.heappush(self.waiting, (score, trial))

    def promote(self, eta: int) -> TrialId | None:
        """The best trial that waits, if it is among the best 1/eta."""
        if not self.waiting:
            return None
        best = self.waiting[0]
        if bisect.bisect_left(self.reached, best) >= len(self.reached) // eta:
            return None
        heapq.heappop(self.waiting)
        return best[1]


class Asha:
    def __init__(self, *, min_iterations: int, max_iterations: int, eta: int, trials: int | None) -> None:
        self.eta = eta
        self.trials_left = math.inf if trials is None else trials
        self.rungs = [Rung(level) for level in rung_levels(min_iterations, max_iterations, eta)]
        self.top = len(self.rungs) - 1
        self.rung_of: dict[TrialId, int] = {}
        """The rung that each trial in training is on its way to."""
        self.wishes: dict[TrialId, Wish] = {}
        self.sampling = 0

    def start(self, state: State) -> Advice:
        return self._fill(state)

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        match event:
            case TrialsSampled():
                self.sampling = 0
                if event.exhausted:
                    self.trials_left = 0
                for trial, _ in event.trials:
                    self._send(trial, 0, state)
                return self._fill(state)
            case Progressed() | TrialPaused():
                return self._trial_moved(state.trials[event.trial], state)
            case _:
                return None

    def _trial_moved(self, trial: Trial, state: State) -> Advice | None:
        rung = self.rung_of.get(trial.number)
        if rung is None:
            return None
        level = self.rungs[rung]
        if not (trial.phase.is_over or trial.has_done(level.iterations)):
            return None
        del self.rung_of[trial.number], self.wishes[trial.number]
        goes_on = rung < self.top and not (trial.returned or trial.phase.is_over)
        if goes_on:
            value = trial.values[-1]
            level.record(-value if state.terms.mode is Mode.MAX else value, trial.number)
        return self._fill(state)

    def _fill(self, state: State) -> Advice:
        """Keep as many trials in training as there is room for."""
        room = self._room(state)
        while len(self.rung_of) < room and self._promote(state):
            pass
        sample = 0
        if not self.sampling:
            sample = int(min(room - len(self.rung_of), self.trials_left))
            self.sampling = sample = max(0, sample)
            self.trials_left -= sample
        busy = len(self.rung_of) + self.sampling
        return Advice(
            wishes=Wishes(trials=tuple(self.wishes.values()), nodes={0: self._nodes(state, busy)}),
            sample=sample,
            done=None if busy else Ending.COMPLETE,
        )

    def _send(self, trial: TrialId, rung: int, state: State) -> None:
        """Let a trial train to a rung."""
        self.rung_of[trial] = rung
        goal = self.rungs[rung].iterations
        self.wishes[trial] = Wish(trial, state.terms.gangs.min_slots, goal, final=rung == self.top)

    def _promote(self, state: State) -> bool:
        for rung in range(self.top - 1, -1, -1):
            trial = self.rungs[rung].promote(self.eta)
            if trial is not None:
                self._send(trial, rung + 1, state)
                return True
        return False

    def _room(self, state: State) -> int:
        """How many gangs the largest cluster holds."""
        cluster, slots = state.terms.cluster, state.terms.gangs.min_slots
        if slots > cluster.slots_per_node:
            return cluster.max_nodes // -(-slots // cluster.slots_per_node)
        return cluster.max_nodes * (cluster.slots_per_node // slots)

    def _nodes(self, state: State, gangs: int) -> int:
        """Nodes for so many gangs; a fixed cluster stays whole until the end."""
        cluster, slots = state.terms.cluster, state.terms.gangs.min_slots
        if cluster.fixed:
            return cluster.max_nodes
        if slots > cluster.slots_per_node:
            return gangs * -(-slots // cluster.slots_per_node)
        return -(-gangs // (cluster.slots_per_node // slots))


def rung_levels(min_iterations: int, max_iterations: int, eta: int) -> list[int]:
    """r, r eta, r eta^2, ... and at last R itself."""
    levels = []
    level = min_iterations
    while level < max_iterations:
        levels.append(level)
        level *= eta
    return [*levels, max_iterations]


def create(setup: PolicySetup) -> Asha:
    numbers = {
        key: _whole(setup.search, key) for key in ("min_iterations", "max_iterations", "eta", "trials")
    }
    low, high, eta = (numbers[key] for key in ("min_iterations", "max_iterations", "eta"))
    if low is None or high is None or eta is None:
        raise JobError(
            "asha needs search.max_iterations, and min_iterations and eta where they differ from 1 and 3"
        )
    return Asha(min_iterations=low, max_iterations=high, eta=eta, trials=numbers["trials"])


def _whole(search: Mapping[str, object], key: str) -> int | None:
    value = search.get(key)
    return value if isinstance(value, int) else None
