"""Visits of a simulated run: what a part of an iteration takes where the models hop."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from elastune.core.commands import Train, Visit
from elastune.hopper.terms import DataTerms
from elastune.place import NodeId, TrialId
from elastune.profiles import Distribution, Profile, is_constant
from elastune.spec.checkpointing import CheckpointRule


class _Kind(enum.IntEnum):
    """Names the independent random streams. Numbers are part of the seed: never reuse one."""

    TRIAL = 107
    ITERATION = 108
    VISIT = 109


@dataclass(frozen=True, slots=True)
class Course:
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

    def plan(self, lease: Train, visit: Visit, *, slowdown: float, measured_s: float | None) -> Course:
        """`slowdown` is the node's; `measured_s`: what this iteration takes, where that is known."""
        trial, node = lease.trial, lease.gang[0].node
        whole_s = self._iteration_s(trial, lease.after_iteration + 1) if measured_s is None else measured_s
        training_s = whole_s * self._data.part_of_iteration(visit.partition) * slowdown
        loads = lease.after_iteration > 0 or visit.done > 0
        hopped = loads and self._at.get(trial) != node
        rng = np.random.default_rng((self._seed, _Kind.VISIT, trial, lease.generation))
        seconds = (
            _draw(self._profile.startup, rng) + training_s + (self._profile.transfer_s if hopped else 0.0)
        )
        if visit.is_last:
            seconds += _draw(self._profile.save, rng) + self._profile.transfer_s
        unsaved_s = self._unsaved_s(lease, visit) + training_s
        training_ends = visit.done + 1 == self._data.partitions
        kept = visit.is_last or self._rule.is_visit_due(unsaved_s, None, training_ends=training_ends)
        return Course(lease, visit, seconds, training_s, unsaved_s, kept, hopped)

    def ended(self, course: Course) -> None:
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
                profile.spread_factor.draw(np.random.default_rng((self._seed, _Kind.TRIAL, trial)), ())
            )
        rng = np.random.default_rng((self._seed, _Kind.ITERATION, trial, iteration))
        return factor * _draw(profile.iteration, rng)


def _draw(latency: Distribution, rng: np.random.Generator) -> float:
    return latency.mean if is_constant(latency) else float(latency.draw(rng, ()))
