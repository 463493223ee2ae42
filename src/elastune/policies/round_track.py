"""A track of rounds by the clock: its trials, their slots, what is left of it, how far each trial trains.

`rounds` decides when a round begins and which trials go on; `Selection` is how a policy chooses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.core.wishes import Wish
from elastune.model.billing import bills_nodes, node_rate
from elastune.model.ids import TrialId
from elastune.policies.costs import RoundCost, RoundCosts, money_for

# The last round ends just before the last call, not at the same instant.
IN_TIME = 1 - 1e-6
# Leases reach so many times as far as a trial of the profile's speed gets, and so many iterations further.
_FURTHER = 2
_MORE_ITERATIONS = 8
# For an iteration that takes no time.
_ENDLESS_ITERATIONS = 1_000
_ROUNDING = 1e-9


@dataclass(slots=True)
class RoundTrack:
    legs: list[RoundCost]  # those not over; the first is the present one
    alive: list[TrialId] = field(default_factory=list)  # best first, in the order of `gangs`
    gangs: tuple[int, ...] = ()
    number: int = 0  # of the present round
    ends_s: float | None = None
    last: tuple[Sequence[TrialId], tuple[int, ...]] = ((), ())  # trials and gangs of its last round

    @classmethod
    def of(cls, legs: Sequence[RoundCost]) -> RoundTrack:
        return cls(list(legs), gangs=legs[0].gangs)

    def rest(self, now_s: float) -> list[RoundCost]:
        """The coming rounds, with what is left of the present one."""
        if not self.legs or self.ends_s is None:
            return list(self.legs)
        return [replace(self.legs[0], seconds=max(0.0, self.ends_s - now_s)), *self.legs[1:]]

    @property
    def slots_of(self) -> dict[TrialId, int]:
        return dict(zip(self.alive, self.gangs, strict=False))

    @property
    def makes_way(self) -> bool:
        """The next round is of new trials, to which those of this one leave their slots."""
        return len(self.legs) > 1 and self.legs[1].draws

    def wishes(self, most: int | None, state: State) -> Iterator[Wish]:
        """No trial trains for more than `most` iterations."""
        if self.ends_s is None:
            return
        reaches = {slots: self._reach(slots, self.ends_s, state) for slots in set(self.gangs)}
        for number, slots in self.slots_of.items():
            if not (trial := state.trials[number]).phase.is_over:
                until = self._until(trial, slots, reaches[slots], state)
                final = most is not None and until >= most
                yield Wish(number, slots, min(until, most) if most else until, final=final)

    def has_reached_its_end(self, trial: Trial, state: State) -> bool:
        """Whether it has trained as far as it may before it leaves its slots to a new one."""
        slots = self.slots_of.get(trial.number)
        if slots is None or self.ends_s is None or not self.makes_way:
            return False
        return trial.iteration >= self._reach(slots, self.ends_s, state)

    def _until(self, trial: Trial, slots: int, reach: int, state: State) -> int:
        if self.makes_way:
            return reach
        until, wish = trial.iteration + reach, state.wished.get(trial.number)
        if wish is not None and wish.until_iteration > trial.iteration and wish.slots == slots:
            return max(until, wish.until_iteration)
        return until

    def _reach(self, slots: int, ends_s: float, state: State) -> int:
        """Iterations of a lease: further than a trial can get in this round; a faster one gets a longer lease
        when it gets there. If it makes way, no further than it gets: it pauses with a save, and no iteration
        is broken off."""
        profile = state.terms.profile
        each_s = profile.iteration.mean / profile.speedup.at(slots)
        if not each_s:
            return _ENDLESS_ITERATIONS
        if self.makes_way:
            overhead_s = RoundCosts.of(state.terms).leg(self.number, 0.0, ()).seconds
            return max(1, int((self.legs[0].seconds - overhead_s) / each_s * (1 + _ROUNDING)))
        return _FURTHER * int((ends_s - state.now_s) / each_s) + _MORE_ITERATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The trials that go on after a round, best first, and their gangs."""

    kept: list[Trial]
    gangs: tuple[int, ...]


Selection = Callable[[RoundTrack, list[Trial], State], Cut]
"""Takes the trials of a track that can go on, best first."""


def keep_best(track: RoundTrack, ranked: list[Trial], _: State) -> Cut:
    gangs = track.legs[0].gangs
    return Cut(kept=ranked[: len(gangs)], gangs=gangs)


def rest_of(tracks: Sequence[RoundTrack], now_s: float) -> list[list[RoundCost]]:
    """The coming rounds of each track that is not over."""
    return [track.rest(now_s) for track in tracks if track.legs]


def fitting_share(tracks: Sequence[RoundTrack], state: State, *, most: float) -> float:
    """How many times as long as planned the coming rounds may last, at most `most` times."""
    tariff, rest = RoundCosts.of(state.terms), rest_of(tracks, state.now_s)
    share, seconds, left_s = most, tariff.seconds(rest), state.time_left_s
    if left_s is not None and seconds > 0.0:
        share = min(share, max(0.0, left_s - tariff.save_s) / seconds * IN_TIME)
    usd, left_usd = tariff.price_usd(rest, booted=True), money_for(state, tariff, rest)
    if left_usd is not None and usd > 0.0:
        share = min(share, max(0.0, left_usd - _lag_usd(tracks, tariff, rest, state)) / usd)
    return share


def _lag_usd(
    tracks: Sequence[RoundTrack], tariff: RoundCosts, rest: Sequence[Sequence[RoundCost]], state: State
) -> float:
    """The cost of nodes to release that wait for a trial in the middle of an iteration."""
    if not bills_nodes(tariff.cluster):
        return 0.0
    surplus = max(0, len(state.where) - tariff.nodes_held(rest))
    staying = tariff.nodes_for(size for track in tracks if track.legs for size in track.gangs)
    return node_rate(tariff.cluster) * min(surplus, staying) * (tariff.profile.iteration.mean / 2)
