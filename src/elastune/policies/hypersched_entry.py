"""When trials may enter the race of HyperSched (Liaw et al. 2019, section 4.2 and Algorithm 3).

A trial enters, new or promoted, while `min(R T_a, eta t_furthest)` is less than the time left: after that it
cannot overtake. The trials in training decide, so the entrance opens again when the leader is fully trained.
`close` is a second condition, for new trials only: they must be able to come close to the furthest of all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

from elastune.core import events
from elastune.core.state import State
from elastune.core.trials import Phase
from elastune.model.ids import TrialId
from elastune.model.quantities import ExpectedError, ParsedBy, fraction
from elastune.policies.gang_sizes import Timings
from elastune.policies.rungs import SeenRung

# A newcomer that ends more rungs below the furthest trial hardly beats it. One rung leaves too few newcomers:
# the regret on AlexNet, two tasks of TaskSet and NAS-Bench-NLP was 27.0 with one and 26.4 with two.
_RUNGS_BEHIND = 2


def _rule(value: object) -> str | float:
    if value in ("deadline", "always"):
        return str(value)
    try:
        return fraction(value)
    except ExpectedError:
        expected = "deadline, always, or the share of the time in which trials may enter, such as 0.5"
        raise ExpectedError(expected) from None


EntranceRule = Annotated[str | float, ParsedBy(_rule)]


class Entrance:
    """Knows how long each trial has trained, and which is the furthest."""

    def __init__(
        self, rule: str | float, rungs: Sequence[SeenRung], timings: Timings, *, eta: float, close: bool
    ) -> None:
        self._rule = rule
        self._rungs = rungs
        self._timings = timings
        self._eta = eta
        self._close = close
        self._trained_s: dict[TrialId, float] = {}
        self._since_s: dict[TrialId, float] = {}
        self._front: TrialId | None = None

    # What happened.

    def gang_started(self, event: events.GangStarted) -> None:
        self._since_s[event.trial] = event.at_s

    def progressed(self, event: events.Progressed, state: State) -> None:
        number = event.trial
        if event.rows and number in self._since_s:
            last_s = event.rows[-1].at_s
            more_s = max(0.0, last_s - self._since_s[number])
            self._trained_s[number] = self._trained_s.get(number, 0.0) + more_s
            self._since_s[number] = last_s
        if self._front is None or state.trials[number].iteration > state.trials[self._front].iteration:
            self._front = number

    def left(self, number: TrialId) -> None:
        self._since_s.pop(number, None)

    # What follows.

    def is_open(self, racing: Collection[TrialId], left_s: float, state: State) -> bool:
        """For new and for promoted trials."""
        if isinstance(self._rule, float):
            deadline = state.limits.deadline_s
            return deadline is None or state.now_s < self._rule * deadline
        if not racing:  # no trial loses slots by it; enter if there is time to reach a rung
            rung_s = self._timings.overhead_s + self._rungs[0].iterations * self._timings.iteration_s(1)
            return not state.trials or rung_s < left_s
        if self._rule == "always":
            return True
        furthest = max(racing, key=lambda number: (state.trials[number].iteration, -number))
        full_s = self._rungs[-1].iterations * self._timings.iteration_s(1)
        return min(full_s, self._eta * self._trained_s.get(furthest, 0.0)) < left_s

    def suits_newcomers(self, left_s: float, state: State) -> bool:
        """Whether a new trial can come close to the furthest of all trials in the time left."""
        if not self._close or self._rule != "deadline" or not state.trials:
            return True
        close = self._front_iterations(state) / self._eta**_RUNGS_BEHIND
        useful = next(rung.iterations for rung in self._rungs if rung.iterations >= close)
        training_s = useful * self._timings.iteration_s(state.terms.gangs.min_slots)
        return self._timings.overhead_s + training_s < left_s

    def _front_iterations(self, state: State) -> int:
        """Of the furthest trial that has not failed."""
        if self._front is None or state.trials[self._front].phase is Phase.FAILED:
            trials = (state.trials[number] for number in self._trained_s)
            going = (trial for trial in trials if trial.phase is not Phase.FAILED)
            furthest = max(going, key=lambda trial: (trial.iteration, -trial.number), default=None)
            self._front = None if furthest is None else furthest.number
        return 0 if self._front is None else state.trials[self._front].iteration
