"""How large gangs should be: what a resize costs and gains, as measured in the run; even shares of the slots.

`Timings` are T_a, T_o and H of HyperSched (Liaw et al. 2019, `update_timings` of Algorithm 3). The profile
counts as much as a few observations, so the first iterations of the first trials correct a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from elastune.core.state import State
from elastune.core.trials import Activity, Trial
from elastune.model.ids import TrialId
from elastune.model.profile import Profile, TrialSpeed
from elastune.model.quantities import ExpectedError, ParsedBy
from elastune.policies.costs import RoundCosts

# Fitting takes milliseconds with a thousand trials, so it waits until this much more was seen.
_GROWTH = 1.1
# A gain in speed below this is within the error of what was measured.
_WORTH = 1.05


def _cooldown(value: object) -> str | int:
    if value == "cost":
        return "cost"
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ExpectedError("cost, or the iterations between two resizes, such as 2")
    return value


Cooldown = Annotated[str | int, ParsedBy(_cooldown)]


class Timings:
    """`profiled` off: resizing costs nothing and scaling is linear. `scales`: the speed-up is measured, too;
    off: it is the profile's, which is an input of Algorithm 3."""

    profile: Profile
    _believed: Profile

    def __init__(self, *, profiled: bool, scales: bool) -> None:
        self.profiled = profiled
        self.scales = scales
        self._speeds: dict[TrialId, TrialSpeed] = {}
        self._seen = -1.0

    def update(self, state: State) -> None:
        """Measure again if enough has happened since the last time."""
        seen = state.iterations + state.observed_speed.startup.count + state.observed_speed.save.count
        if self._seen < 0.0:
            self.profile = self._believed = state.terms.profile
            self._seen = 0.0
        if seen <= _GROWTH * self._seen:
            return
        observation = state.observation()
        self.profile, self._speeds, self._seen = observation.profile(self._believed), observation.speeds, seen

    @property
    def overhead_s(self) -> float:
        """Of a resize: save, start, load."""
        profile = self.profile
        return profile.save.mean + profile.startup.mean + 2 * profile.transfer_s if self.profiled else 0.0

    def speed(self, slots: int) -> float:
        """Against one slot."""
        if not self.profiled:
            return float(slots)
        return (self.profile if self.scales else self._believed).speedup.at(slots)

    def iteration_s(self, slots: int, trial: TrialId | None = None) -> float:
        """Of this trial, or of a new one."""
        own = self._speeds.get(trial) if trial is not None else None
        return (own.factor if own else 1.0) * self.profile.iteration.mean / self.profile.speedup.at(slots)

    def iterations_s(self, slots: int, trials: Iterable[TrialId]) -> Iterator[float]:
        """The same of many trials."""
        mean_s, speed, speeds = self.profile.iteration.mean, self.profile.speedup.at(slots), self._speeds
        for trial in trials:
            own = speeds.get(trial)
            yield (own.factor if own else 1.0) * mean_s / speed

    def smallest(self, slots: int, least: int) -> int:
        """The fewest slots, from `least` on, that are about as fast as so many."""
        return next(
            (size for size in range(least, slots) if self.speed(size) * _WORTH >= self.speed(slots)), slots
        )

    def gains(self, held: int, share: int, left_s: float) -> bool:
        """`H' (T - T_0) > H T`: whether more iterations are done with the share by the end of the time."""
        if math.isinf(left_s):
            return self.speed(share) > self.speed(held)
        return self.speed(share) * (left_s - self.overhead_s) > self.speed(held) * left_s

    def resize_at_s(self, trial: Trial, held: int, share: int) -> float:
        """When the present gang has trained as long as a resize needs to pay for itself: then at most half of
        the time is lost by resizes, however often the share changes."""
        if trial.activity is None:
            return -math.inf
        if (gain := self.speed(share) - self.speed(held)) <= 0.0:
            return math.inf
        started_s = self.overhead_s if trial.activity is not Activity.STARTING else 2 * self.overhead_s
        return trial.formed_s + started_s + self.overhead_s * self.speed(share) / gain

    def finishes(self, trial: Trial, slots: int, iterations: int, left_s: float) -> bool:
        """Whether the trial can train so many more in the time left."""
        start_s = 0.0 if len(trial.gang) == slots else self.overhead_s
        return start_s + iterations * self.iteration_s(slots, trial.number) <= left_s


class GangSizes:
    """The slots of the trials in the race. `cooldown`: by cost, or iterations between two resizes of a trial.
    `trims`: slots that hardly make a gang faster are left to others."""

    def __init__(self, timings: Timings, cooldown: str | int, *, trims: bool) -> None:
        self.wished: dict[TrialId, int] = {}
        self._timings = timings
        self._cooldown = cooldown
        self._trims = trims
        self._resized_at: dict[TrialId, int] = {}  # the iteration at which a trial got its present slots
        self._shares: dict[tuple[int, int], list[int]] = {}  # by trials and slots

    def enter(self, trial: Trial, slots: int) -> None:
        self.wished[trial.number] = slots
        self._resized_at[trial.number] = trial.iteration

    def free(self, slots: int, drawn: int, state: State) -> int:
        """Of so many, those that no trial of the race holds or is drawn for."""
        return slots - sum(self.wished.values()) - drawn * state.terms.gangs.min_slots

    def lent(self, state: State) -> dict[TrialId, int]:
        """Slots beyond the fewest that gangs give back if trials enter, the worst first."""
        least = state.terms.gangs.min_slots
        if not isinstance(self._cooldown, str):
            return {}
        large = {number: slots for number, slots in self.wished.items() if slots > least}
        return {
            number: slots - least
            for number, slots in reversed(best_first(large, state))
            if self._timings.resize_at_s(state.trials[number], least, slots) <= state.now_s
        }

    def divide(self, slots: int, drawn: int, left_s: float, state: State) -> float:
        """Evenly, the best first, also for trials being drawn; resizes gangs that gain. Returns when the next
        resize is due."""
        if not self.wished:
            return math.inf
        again_s, least = math.inf, state.terms.gangs.min_slots
        ranked, free = best_first(self.wished, state), self.free(slots, drawn, state)
        for (number, held), even in zip(ranked, self._even(len(ranked) + drawn, slots, state), strict=False):
            share = min(even, held + max(0, free))
            if self._trims:
                share = self._timings.smallest(share, least)
            if share <= held or not self._timings.gains(held, share, left_s):
                continue
            trial = state.trials[number]
            ready_s = self._resize_at_s(trial, held, share, state)
            if ready_s <= state.now_s:
                self.enter(trial, share)
                free -= share - held
            else:
                again_s = min(again_s, ready_s)
        return again_s

    def _even(self, count: int, slots: int, state: State) -> list[int]:
        if (count, slots) not in self._shares:
            self._shares[count, slots] = even_shares(count, slots, state)
        return self._shares[count, slots]

    def _resize_at_s(self, trial: Trial, held: int, share: int, state: State) -> float:
        if isinstance(self._cooldown, str):
            return self._timings.resize_at_s(trial, held, share)
        owed = self._cooldown - (trial.iteration - self._resized_at[trial.number])
        if owed < 0 or trial.activity is None:
            return state.now_s
        return state.now_s + (owed + 1) * self._timings.iteration_s(held)


def best_first(slots_of: Mapping[TrialId, int], state: State) -> list[tuple[TrialId, int]]:
    """By the last value; among those that have none, the oldest first."""
    ranked = state.rank([state.trials[number] for number in slots_of])
    return [(trial.number, slots_of[trial.number]) for trial in ranked]


def even_shares(count: int, slots: int, state: State) -> list[int]:
    """Slots for each of `count` trials, the best first.

    If the nodes cannot hold even shares without scattering gangs (12 of 5 slots on 16 nodes of 4), shares
    grow in steps that divide a node and by whole nodes.
    """
    least = state.terms.gangs.min_slots
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
