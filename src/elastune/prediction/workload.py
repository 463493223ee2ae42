"""What is left to do, how long its parts take, and the machines at hand."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.cluster import ClusterTerms
from elastune.profiles import Profile
from elastune.spec import Hopping, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One sequence of stages on nodes of its own.

    `node_ages_s` are the nodes already held when the first stage begins, empty for a fresh job. What they
    have cost so far (their age) is paid; what is left of their minimum charge is not. `resumes`: the trials
    of the first stage have checkpoints to load. `hopping`: the models travel and the data stay; then
    `most_slots` are those that one trial may train on together (None: any number).
    """

    stages: tuple[Stage, ...]
    profile: Profile
    cluster: ClusterTerms
    node_ages_s: tuple[float, ...] = ()
    resumes: bool = False
    hopping: Hopping | None = None
    most_slots: int | None = None

    @property
    def is_deterministic(self) -> bool:
        return self.profile.is_deterministic and self.cluster.is_deterministic
