"""Observed speed: corrects the profile for plans of the rest of a run.

A profile was measured on a few configurations, perhaps on another day. Observations correct it as far as they
exceed random variation ("luck"). What a trial's own iterations took is its own, and stays with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant, Distribution, scaled
from elastune.model.ids import TrialId
from elastune.model.profile import Profile, Speedup, TrialSpeed

# How far off a profile usually is, as a whole and, beyond that, at one number of slots.
_DOUBT = 0.25
_DOUBT_PER_SIZE = 0.1
# Variation that neither noise nor spread of the profile explain.
_LEAST_LUCK = 0.01
_ROUNDS = 6
# Trials that differ by more than this differ, whatever the profile says.
_UNEQUAL = 0.05
# A start-up, save or boot time of the profile counts as much as so many observations.
_BELIEF = 3.0


@dataclass(frozen=True, slots=True)
class TrainingSpell:
    """A gang has trained so many iterations without a break."""

    trial: TrialId
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

    def plus(self, seconds: float, count: float) -> SpeedTally:
        return SpeedTally(self.count + count, self.seconds + seconds)


Guess = Callable[[Sequence[TrialId]], Sequence[TrialSpeed]]
"""What is known of the speed of trials before they have trained."""


@dataclass(slots=True)
class ObservedSpeed:
    """Training by trial and number of slots, and the latencies of start-up, save and boot."""

    training: dict[tuple[TrialId, int], SpeedTally] = field(default_factory=dict)
    startup: SpeedTally = field(default_factory=SpeedTally)
    save: SpeedTally = field(default_factory=SpeedTally)
    boot: SpeedTally = field(default_factory=SpeedTally)

    def trained(self, spell: TrainingSpell) -> None:
        tally = self.training.setdefault((spell.trial, spell.slots), SpeedTally())
        tally.add(spell.seconds, spell.iterations)

    def observation(
        self, profile: Profile, running: Iterable[TrainingSpell] = (), guess: Guess | None = None
    ) -> SpeedObservation:
        """What follows for a profile, with the `running` spells of gangs that still train."""
        every = dict(self.training)
        for spell in running:
            known = every.get((spell.trial, spell.slots), SpeedTally())
            every[spell.trial, spell.slots] = known.plus(spell.seconds, spell.iterations)
        average = TrialSpeed(1.0, profile.spread)
        return _explain(every, profile, guess or (lambda some: [average] * len(some)), self)


def _explain(
    training: Mapping[tuple[TrialId, int], SpeedTally], profile: Profile, guess: Guess, once: ObservedSpeed
) -> SpeedObservation:
    """Time by profile, explained by three factors: the whole profile, the number of slots, the trial.

    All in logarithms with normal priors, so each factor, given the others, is a weighted mean of what they
    leave unexplained. A few rounds suffice: trials start with what was guessed, and mostly differ.
    """
    noise = profile.iteration.sd / profile.iteration.mean if profile.iteration.mean else 0.0
    keys = [key for key, tally in training.items() if tally.count and tally.seconds]
    tallies = [training[key] for key in keys]
    once_s = {slots: _iteration_s(profile, slots) for slots in {slots for _, slots in keys}}
    expected = [tally.count * once_s[slots] for tally, (_, slots) in zip(tallies, keys, strict=True)]
    if not sum(expected):
        return SpeedObservation({None: 1.0}, math.inf, {}, once)
    excess = np.log([tally.seconds / e for tally, e in zip(tallies, expected, strict=True)])
    weight = 1.0 / (noise**2 / np.array([tally.count for tally in tallies]) + _LEAST_LUCK**2)
    trials, of_trial = np.unique([trial for trial, _ in keys], return_inverse=True)
    sizes, of_size = np.unique([slots for _, slots in keys], return_inverse=True)
    guesses = guess([TrialId(int(trial)) for trial in trials])
    variance = np.log1p(np.array([each.spread for each in guesses]) ** 2)
    prior = np.log([each.factor for each in guesses]) - variance / 2
    own, by_size, common = prior.copy(), np.zeros(sizes.size), 0.0
    seen = np.bincount(of_trial, weight)
    for round_ in range(2 * _ROUNDS):
        left = np.bincount(of_trial, weight * (excess - by_size[of_size])) / seen - prior
        if round_ == _ROUNDS:  # what neither slots nor luck explain: these trials differ
            differ = np.abs(left - common) > _UNEQUAL
            variance = np.where(differ, np.maximum(variance, _UNEQUAL**2), variance)
        trust = 1.0 / (variance + 1.0 / seen)
        common = float((trust * left).sum() / (trust.sum() + _DOUBT**-2))
        left = excess - common - by_size[of_size]
        own = prior + variance * (np.bincount(of_trial, weight * left) - seen * prior) / (1 + variance * seen)
        left = weight * (excess - common - own[of_trial])
        by_size = np.bincount(of_size, left) / (np.bincount(of_size, weight) + _DOUBT_PER_SIZE**-2)
    unknown = variance / (1 + variance * seen)
    speeds = {
        TrialId(trial): TrialSpeed(math.exp(mean + left_s2 / 2), math.sqrt(math.expm1(left_s2)))
        for trial, mean, left_s2 in zip(trials.tolist(), own.tolist(), unknown.tolist(), strict=True)
    }
    factors: dict[int | None, float] = {None: math.exp(common)}
    factors |= {int(size): math.exp(common + more) for size, more in zip(sizes, by_size, strict=True)}
    return SpeedObservation(factors, math.sqrt(1.0 / float(trust.sum()) + _LEAST_LUCK**2), speeds, once)


@dataclass(frozen=True, slots=True)
class SpeedObservation:
    factors: dict[int | None, float]
    luck: float
    """The standard deviation of `slowdown` if the profile were right."""
    speeds: dict[TrialId, TrialSpeed]
    """Of the trials that have trained, apart from the slowdown."""
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


def _revised(believed: Distribution, seen: SpeedTally) -> Distribution:
    if not seen.count:
        return believed
    mean = (believed.mean * _BELIEF + seen.seconds) / (_BELIEF + seen.count)
    return scaled(believed, mean / believed.mean) if believed.mean else Constant(mean)
