"""How long things take in a simulated run.

Draws are seeded by what they belong to (a gang, a barrier), never by the order in which they are asked for.

Whose training ends before its time, and when.

Visits of a simulated run: what a part of an iteration takes where the models hop.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elastune.core.commands import Train, Visit
from elastune.hopping.partitions import DataTerms
from elastune.model.checkpoint_rule import CheckpointRule
from elastune.model.distributions import Distribution, is_constant
from elastune.model.ids import Gang, NodeId, TrialId
from elastune.model.profile import Profile


class _Kind(enum.IntEnum):
    """Names the independent random streams. Numbers are part of the seed: never reuse one."""

    GANG = 101
    BARRIER = 102


class GangPace:
    """The luck of one gang: a factor for its configuration in this stage, and noise per iteration."""

    def __init__(self, profile: Profile, entropy: tuple[int, ...], factor: float) -> None:
        self._profile = profile
        self._rng: np.random.Generator | None = None
        self._entropy = entropy
        self.factor = factor
        """Seconds of this gang per second at one slot."""
        if profile.spread:
            self.factor *= float(profile.spread_factor.draw(self._random, ()))
        self._noisy = not is_constant(profile.iteration)

    def startup_s(self, *, loads: bool) -> float:
        return self._draw(self._profile.startup) + (self._profile.transfer_s if loads else 0.0)

    def save_s(self) -> float:
        return self._draw(self._profile.save) + self._profile.transfer_s

    def iterations_s(self, count: int) -> list[float]:
        """The next iterations by the profile."""
        if not self._noisy:
            return [self._profile.iteration.mean * self.factor] * count
        drawn = self._profile.iteration.draw(self._random, (count,)) * self.factor
        return [float(seconds) for seconds in drawn]

    @property
    def expected_s(self) -> float:
        """What the gang itself would expect of its next iteration."""
        return self._profile.iteration.mean * self.factor

    def _draw(self, latency: Distribution) -> float:
        return latency.mean if is_constant(latency) else float(latency.draw(self._random, ()))

    @property
    def _random(self) -> np.random.Generator:
        if self._rng is None:
            self._rng = np.random.default_rng(self._entropy)
        return self._rng


class Latencies:
    """`slowdown` tells how slow a node is; a gang is as slow as its slowest node."""

    def __init__(
        self,
        profile: Profile,
        *,
        seed: int,
        slots_per_node: int,
        scattered_factor: float,
        slowdown: Callable[[str], float],
    ) -> None:
        self._profile = profile
        self._seed = seed
        self._slots_per_node = slots_per_node
        self._scattered_factor = scattered_factor
        self._slowdown = slowdown

    def gang(self, trial: TrialId, generation: int, gang: Gang) -> GangPace:
        nodes = {slot.node for slot in gang}
        factor = max(self._slowdown(node) for node in nodes) / self._profile.speedup.at(len(gang))
        if len(nodes) > -(-len(gang) // self._slots_per_node):
            factor *= self._scattered_factor
        return GangPace(self._profile, (self._seed, _Kind.GANG, trial, generation), factor)

    def barrier_s(self, pool: int, stage: int) -> float:
        sync = self._profile.sync
        if is_constant(sync):
            return sync.mean
        rng = np.random.default_rng((self._seed, _Kind.BARRIER, pool, stage))
        return float(sync.draw(rng, ()))


CRASH = 103
KILL = 106


class GangLuck:
    """Drawn per gang, so that a trial that is tried again may have better luck.

    `kind` is part of the seed.
    """

    def __init__(self, probability: float, seed: int, kind: int) -> None:
        self._probability = probability
        self._seed = seed
        self._kind = kind

    def after(self, trial: TrialId, lease: Train) -> int | None:
        """The iteration after which it happens to this gang; None: it does not."""
        if not self._probability:
            return None
        rng = np.random.default_rng((self._seed, self._kind, trial, lease.generation))
        if rng.random() >= self._probability:
            return None
        return int(rng.integers(lease.after_iteration, max(lease.after_iteration + 1, lease.until_iteration)))


class _VisitKind(enum.IntEnum):
    """Names the independent random streams. Numbers are part of the seed: never reuse one."""

    TRIAL = 107
    ITERATION = 108
    VISIT = 109


@dataclass(frozen=True, slots=True)
class VisitTimes:
    """A visit as it will be: how long it takes, and how much of that is training."""

    lease: Train
    visit: Visit
    seconds: float
    training_s: float
    unsaved_s: float
    """Training since the last durable state, this visit included."""
    kept: bool
    hopped: bool


class Visits:
    """Draws are seeded by what they belong to, never by the order in which they are asked for."""

    def __init__(self, profile: Profile, data: DataTerms, *, seed: int, rule: CheckpointRule) -> None:
        self._profile = profile
        self._data = data
        self._seed = seed
        self._rule = rule
        self._at: dict[TrialId, NodeId] = {}
        self._unsaved: dict[TrialId, tuple[int, int, float]] = {}
        """By trial: iterations, visits, and seconds of training after them that no durable state has."""

    def plan(self, lease: Train, visit: Visit, *, slowdown: float, measured_s: float | None) -> VisitTimes:
        """`slowdown` is the node's; `measured_s`: what this iteration takes, where that is known."""
        trial, node = lease.trial, lease.gang[0].node
        whole_s = self._iteration_s(trial, lease.after_iteration + 1) if measured_s is None else measured_s
        training_s = whole_s * self._data.part_of_iteration(visit.partition) * slowdown
        loads = lease.after_iteration > 0 or visit.done > 0
        hopped = loads and self._at.get(trial) != node
        rng = np.random.default_rng((self._seed, _VisitKind.VISIT, trial, lease.generation))
        seconds = (
            _draw(self._profile.startup, rng) + training_s + (self._profile.transfer_s if hopped else 0.0)
        )
        if visit.is_last:
            seconds += _draw(self._profile.save, rng) + self._profile.transfer_s
        unsaved_s = self._unsaved_s(lease, visit) + training_s
        training_ends = visit.done + 1 == self._data.partitions
        kept = visit.is_last or self._rule.is_visit_due(unsaved_s, None, training_ends=training_ends)
        return VisitTimes(lease, visit, seconds, training_s, unsaved_s, kept, hopped)

    def ended(self, course: VisitTimes) -> None:
        lease, visit = course.lease, course.visit
        self._at[lease.trial] = lease.gang[0].node
        unsaved_s = 0.0 if course.kept else course.unsaved_s
        self._unsaved[lease.trial] = (lease.after_iteration, visit.done + 1, unsaved_s)

    def _unsaved_s(self, lease: Train, visit: Visit) -> float:
        """A model that went back to its last durable state has nothing unsaved."""
        iteration, visits, unsaved_s = self._unsaved.get(lease.trial, (0, 0, 0.0))
        return unsaved_s if (iteration, visits) == (lease.after_iteration, visit.done) else 0.0

    def _iteration_s(self, trial: TrialId, iteration: int) -> float:
        profile = self._profile
        factor = 1.0
        if profile.spread:
            factor = float(
                profile.spread_factor.draw(np.random.default_rng((self._seed, _VisitKind.TRIAL, trial)), ())
            )
        rng = np.random.default_rng((self._seed, _VisitKind.ITERATION, trial, iteration))
        return factor * _draw(profile.iteration, rng)


def _draw(latency: Distribution, rng: np.random.Generator) -> float:
    return latency.mean if is_constant(latency) else float(latency.draw(rng, ()))
