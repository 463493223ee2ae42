"""How long things take in a simulated run, and which gangs meet a fault.

Draws are seeded by what they belong to (a gang, a barrier, a visit), never by the order of the calls.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from elastune.core.commands import Train, Visit
from elastune.core.events import Config
from elastune.hopping.partitions import DataTerms
from elastune.model.checkpoint_rule import CheckpointRule
from elastune.model.distributions import Distribution, LogNormal, is_constant
from elastune.model.ids import Gang, NodeId, TrialId
from elastune.model.profile import Profile

CRASH = 103
KILL = 106


class _LatencyKind(enum.IntEnum):
    """Names the independent random streams. Numbers are part of the seed: never reuse one."""

    GANG = 101
    BARRIER = 102
    TRIAL = 107
    ITERATION = 108
    VISIT = 109


class GangPace:
    """The speed of one gang: a factor for its slots, one for its configuration, and noise per iteration."""

    def __init__(
        self, profile: Profile, entropy: tuple[int, ...], factor: float, own_factor: float = 1.0
    ) -> None:
        self._profile = profile
        self._rng: np.random.Generator | None = None
        self._entropy = entropy
        self.factor = factor
        """Seconds of this gang per second at one slot."""
        self._own_factor = own_factor
        """Seconds of its configuration per second of the profile; recorded seconds have it already."""
        self._noisy = not is_constant(profile.iteration)

    def startup_s(self, *, loads: bool) -> float:
        return self._draw(self._profile.startup) + (self._profile.transfer_s if loads else 0.0)

    def save_s(self) -> float:
        return self._draw(self._profile.save) + self._profile.transfer_s

    def iterations_s(self, count: int) -> list[float]:
        """The next iterations by the profile."""
        if not self._noisy:
            return [self.expected_s] * count
        drawn = self._profile.iteration.draw(self._random, (count,)) * self.factor * self._own_factor
        seconds: list[float] = drawn.tolist()
        return seconds

    @property
    def expected_s(self) -> float:
        """What the gang itself would expect of its next iteration."""
        return self._profile.iteration.mean * self.factor * self._own_factor

    def _draw(self, latency: Distribution) -> float:
        return latency.mean if is_constant(latency) else float(latency.draw(self._random, ()))

    @property
    def _random(self) -> np.random.Generator:
        if self._rng is None:
            self._rng = np.random.default_rng(self._entropy)
        return self._rng


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFactors:
    """How much longer the iterations of each trial take than those of the profile, in all its gangs.

    By the profile's own model of configurations, where it has one, with what that leaves unknown.
    """

    profile: Profile
    seed: int
    config: Callable[[TrialId], Config]
    known: dict[TrialId, float] = field(default_factory=dict)
    """Those that were drawn already: every gang of a trial asks."""

    def of(self, trial: TrialId) -> float:
        if not (self.profile.spread or self.profile.speeds):
            return 1.0
        factor = self.known.get(trial)
        if factor is None:
            factor = self.known[trial] = self._draw(trial)
        return factor

    def _draw(self, trial: TrialId) -> float:
        (guess,) = self.profile.guess_speeds([self.config(trial)])
        if not guess.spread:
            return guess.factor
        rng = np.random.default_rng((self.seed, _LatencyKind.TRIAL, trial))
        return guess.factor * float(LogNormal(1.0, guess.spread).draw(rng, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """`slowdown` is the factor of a node; a gang is as slow as its slowest node."""

    profile: Profile
    seed: int
    slots_per_node: int
    scattered_factor: float
    slowdown: Callable[[str], float]
    trials: TrialFactors

    def gang(self, trial: TrialId, generation: int, gang: Gang) -> GangPace:
        nodes = {slot.node for slot in gang}
        factor = max([self.slowdown(node) for node in nodes]) / self.profile.speedup.at(len(gang))
        if len(nodes) > -(-len(gang) // self.slots_per_node):
            factor *= self.scattered_factor
        entropy = (self.seed, _LatencyKind.GANG, trial, generation)
        return GangPace(self.profile, entropy, factor, self.trials.of(trial))

    def barrier_s(self, pool: int, stage: int) -> float:
        if is_constant(self.profile.sync):
            return self.profile.sync.mean
        return _draw(self.profile.sync, np.random.default_rng((self.seed, _LatencyKind.BARRIER, pool, stage)))


@dataclass(frozen=True, slots=True)
class GangLuck:
    """Drawn per gang, so a retried trial may be spared. `kind` is part of the seed."""

    probability: float
    seed: int
    kind: int

    def after(self, trial: TrialId, lease: Train) -> int | None:
        """The iteration after which this gang meets the fault; None: it does not."""
        if not self.probability:
            return None
        rng = np.random.default_rng((self.seed, self.kind, trial, lease.generation))
        if rng.random() >= self.probability:
            return None
        return int(rng.integers(lease.after_iteration, max(lease.after_iteration + 1, lease.until_iteration)))


@dataclass(frozen=True, slots=True)
class VisitTimes:
    """How long a visit will take, and how much of that is training."""

    lease: Train
    visit: Visit
    seconds: float
    training_s: float
    unsaved_s: float
    """Training since the last durable state, this visit included."""
    kept: bool
    hopped: bool


class Visits:
    """Times of visits: parts of an iteration, where models hop."""

    def __init__(
        self,
        profile: Profile,
        data: DataTerms,
        *,
        seed: int,
        rule: CheckpointRule,
        trials: TrialFactors | None = None,
    ) -> None:
        self._profile = profile
        self._data = data
        self._seed = seed
        self._rule = rule
        self._trials = trials or TrialFactors(profile=profile, seed=seed, config=lambda _: {})
        self._at: dict[TrialId, NodeId] = {}
        self._unsaved: dict[TrialId, tuple[int, int, float]] = {}
        """By trial: iterations, visits, and seconds of training since the last durable state."""

    def plan(self, lease: Train, visit: Visit, *, slowdown: float, measured_s: float | None) -> VisitTimes:
        """`slowdown` is the node's; `measured_s`: the measured time of this iteration, where known."""
        trial, node = lease.trial, lease.gang[0].node
        whole_s = self._iteration_s(trial, lease.after_iteration + 1) if measured_s is None else measured_s
        training_s = whole_s * self._data.part_of_iteration(visit.partition) * slowdown
        loads = lease.after_iteration > 0 or visit.done > 0
        hopped = loads and self._at.get(trial) != node
        rng = np.random.default_rng((self._seed, _LatencyKind.VISIT, trial, lease.generation))
        transfer_s = self._profile.transfer_s if hopped else 0.0
        seconds = _draw(self._profile.startup, rng) + training_s + transfer_s
        if visit.is_last:
            seconds += _draw(self._profile.save, rng) + self._profile.transfer_s
        unsaved_s = self._unsaved_s(lease, visit) + training_s
        training_ends = visit.done + 1 == self._data.partitions
        kept = visit.is_last or self._rule.is_visit_due(unsaved_s, None, training_ends=training_ends)
        return VisitTimes(lease, visit, seconds, training_s, unsaved_s, kept, hopped)

    def ended(self, times: VisitTimes) -> None:
        lease, visit = times.lease, times.visit
        self._at[lease.trial] = lease.gang[0].node
        unsaved_s = 0.0 if times.kept else times.unsaved_s
        self._unsaved[lease.trial] = (lease.after_iteration, visit.done + 1, unsaved_s)

    def _unsaved_s(self, lease: Train, visit: Visit) -> float:
        """0 for a model that was reset to its last durable state."""
        iteration, visits, unsaved_s = self._unsaved.get(lease.trial, (0, 0, 0.0))
        return unsaved_s if (iteration, visits) == (lease.after_iteration, visit.done) else 0.0

    def _iteration_s(self, trial: TrialId, iteration: int) -> float:
        profile, factor = self._profile, self._trials.of(trial)
        rng = np.random.default_rng((self._seed, _LatencyKind.ITERATION, trial, iteration))
        return factor * _draw(profile.iteration, rng)


def _draw(latency: Distribution, rng: np.random.Generator) -> float:
    return latency.mean if is_constant(latency) else float(latency.draw(rng, ()))
