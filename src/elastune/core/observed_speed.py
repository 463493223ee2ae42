"""Observed speed: corrects the profile for plans of the rest of a run.

A profile was measured on a few configurations, perhaps on another day. Observations correct it as far as they
exceed random variation ("luck").
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant, Distribution, scaled
from elastune.model.profile import Profile, Speedup

# How far off a profile usually is, as a whole and, beyond that, at one number of slots.
_DOUBT = 0.25
_DOUBT_PER_SIZE = 0.1
# Variation that neither noise nor spread of the profile explain.
_LEAST_LUCK = 0.01
# A start-up, save or boot time of the profile counts as much as so many observations.
_BELIEF = 3.0


@dataclass(frozen=True, slots=True)
class TrainingSpell:
    """A gang has trained so many iterations without a break."""

    slots: int
    iterations: float
    seconds: float


@dataclass(slots=True)
class SpeedTally:
    count: float = 0.0
    seconds: float = 0.0

    def add(self, seconds: float, count: float = 1.0) -> None:
        self.count += count
        self.seconds += seconds


@dataclass(slots=True)
class ObservedSpeed:
    """Finished training spells by number of slots, and the latencies of start-up, save and boot."""

    spells: dict[int, int] = field(default_factory=dict)
    training: dict[int, SpeedTally] = field(default_factory=dict)
    startup: SpeedTally = field(default_factory=SpeedTally)
    save: SpeedTally = field(default_factory=SpeedTally)
    boot: SpeedTally = field(default_factory=SpeedTally)

    def trained(self, spell: TrainingSpell) -> None:
        self.spells[spell.slots] = self.spells.get(spell.slots, 0) + 1
        self.training.setdefault(spell.slots, SpeedTally()).add(spell.seconds, spell.iterations)

    def observation(self, profile: Profile, running: Iterable[TrainingSpell] = ()) -> SpeedObservation:
        """What follows for a profile, with the `running` spells of gangs that still train."""
        all_ = ObservedSpeed(
            dict(self.spells), {slots: replace(tally) for slots, tally in self.training.items()}
        )
        for spell in running:
            all_.trained(spell)
        return SpeedObservation(all_._factors(profile), all_._luck(profile, all_.training), self)

    def _factors(self, profile: Profile) -> dict[int | None, float]:
        """How much longer iterations take than in the profile; None: on numbers of slots not observed."""
        seen = {slots: tally for slots, tally in self.training.items() if tally.count and tally.seconds}
        expected = {slots: tally.count * _iteration_s(profile, slots) for slots, tally in seen.items()}
        total = sum(expected.values())
        if not total:
            return {None: 1.0}
        ratio = sum(tally.seconds for tally in seen.values()) / total
        common = 1.0 + _trust(_DOUBT, self._luck(profile, seen)) * (ratio - 1.0)
        factors: dict[int | None, float] = {None: common}
        for slots, tally in seen.items():
            own = tally.seconds / expected[slots]
            factors[slots] = common + _trust(_DOUBT_PER_SIZE, self._luck(profile, [slots])) * (own - common)
        return factors

    def _luck(self, profile: Profile, sizes: Iterable[int]) -> float:
        """The standard deviation of observed by expected time, if the profile were right."""
        known = [slots for slots in sizes if slots in self.training]
        spells = sum(self.spells[slots] for slots in known)
        iterations = sum(self.training[slots].count for slots in known)
        if not spells or not iterations:
            return math.inf
        noise = profile.iteration.sd / profile.iteration.mean if profile.iteration.mean else 0.0
        return math.sqrt(profile.spread**2 / spells + noise**2 / iterations + _LEAST_LUCK**2)


@dataclass(frozen=True, slots=True)
class SpeedObservation:
    factors: dict[int | None, float]
    luck: float
    """The standard deviation of `slowdown` if the profile were right."""
    once: ObservedSpeed

    @property
    def slowdown(self) -> float:
        """How much longer iterations take than in the profile, overall."""
        return self.factors[None]

    def profile(self, believed: Profile) -> Profile:
        base = believed.iteration.mean * self.factors.get(1, self.slowdown)
        sizes = {slots for slots, _ in believed.speedup.points} | {slots for slots in self.factors if slots}
        points = {
            slots: base / (_iteration_s(believed, slots) * self.factors.get(slots, self.slowdown))
            for slots in sizes
            if _iteration_s(believed, slots) > 0.0
        }
        return replace(
            believed,
            iteration=scaled(believed.iteration, self.factors.get(1, self.slowdown)),
            speedup=Speedup.of({**points, 1: 1.0}),
            startup=_revised(believed.startup, self.once.startup),
            save=_revised(believed.save, self.once.save),
        )

    def cluster(self, believed: ClusterTerms) -> ClusterTerms:
        return replace(believed, init=_revised(believed.init, self.once.boot))


def _iteration_s(profile: Profile, slots: int) -> float:
    return profile.iteration.mean / profile.speedup.at(slots)


def _trust(doubt: float, luck: float) -> float:
    """The weight of the observation against the profile, by the uncertainty of each."""
    return 0.0 if math.isinf(luck) else doubt**2 / (doubt**2 + luck**2)


def _revised(believed: Distribution, seen: SpeedTally) -> Distribution:
    if not seen.count:
        return believed
    mean = (believed.mean * _BELIEF + seen.seconds) / (_BELIEF + seen.count)
    return scaled(believed, mean / believed.mean) if believed.mean else Constant(mean)
