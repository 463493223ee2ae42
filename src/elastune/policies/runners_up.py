"""Paused trials of HyperSched that train on slots which no trial in the race can use.

A runner-up keeps its slots until its next rung, the end of its training, or until the race needs them. The
best by the last value come first, each with the fewest slots that bring it to its next rung in the time left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.model.ids import TrialId
from elastune.policies.gang_sizes import Timings
from elastune.policies.rungs import SeenRung


class RunnersUp:
    def __init__(self, rungs: Sequence[SeenRung], timings: Timings) -> None:
        self.training: dict[TrialId, int] = {}
        """With the slots wished for each."""
        self._rungs = rungs
        self._timings = timings

    def fill(self, free: int, left_s: float, racing: Collection[TrialId], state: State) -> int:
        """Choose those that train on the free slots; returns how many slots are left."""
        before = state.rank([state.trials[number] for number in self.training])
        kept: dict[TrialId, int] = {}
        for trial in before:
            slots = self.training[trial.number]
            if not trial.phase.is_over and slots <= free:
                kept[trial.number] = slots
                free -= slots
        self.training = kept
        least = state.terms.gangs.min_slots
        if free < least:
            return free
        for trial in state.rank(self._able(free, left_s, racing, state)):
            if free < least:
                break
            if slots := self._slots_for(trial, free, left_s, state):
                self.training[trial.number] = slots
                free -= slots
        return free

    def drop(self, number: TrialId) -> None:
        self.training.pop(number, None)

    def _able(self, free: int, left_s: float, racing: Collection[TrialId], state: State) -> list[Trial]:
        """Paused trials that can do an iteration in time: near the end few can, so few gangs are tried."""
        waiting = {number for rung in self._rungs for _, number in rung.waiting}
        paused = waiting.difference(racing, self.training)
        fastest = max(_sizes(free, state), key=self._timings.profile.speedup.at)
        overhead_s, trials = self._timings.overhead_s, state.trials
        iterations_s = self._timings.iterations_s(fastest, paused)
        return [
            trial
            for trial, iteration_s in zip(map(trials.__getitem__, paused), iterations_s, strict=True)
            if not trial.phase.is_over and iteration_s + (0.0 if trial.gang else overhead_s) <= left_s
        ]

    def _slots_for(self, trial: Trial, free: int, left_s: float, state: State) -> int:
        """0: not even an iteration can be done."""
        goal = next((rung.iterations for rung in self._rungs if rung.iterations > trial.iteration), 0)
        missing, fitting = goal - trial.iteration, 0
        if missing <= 0:
            return 0
        for size in _sizes(free, state):
            if self._timings.finishes(trial, size, missing, left_s):
                return size
            faster = not fitting or self._timings.gains(fitting, size, left_s)
            if faster and self._timings.finishes(trial, size, 1, left_s):
                fitting = size
        return fitting


def _sizes(free: int, state: State) -> list[int]:
    """The smallest gang, twice as large, and so on."""
    least, most = state.terms.gangs.min_slots, min(free, state.terms.gangs.max_slots or free)
    doublings = (most // least).bit_length() if most >= least else 0
    return [least << power for power in range(doublings)]
