"""What is left to do, how long its parts take, and the machines at hand."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.cluster import ClusterTerms
from elastune.profiles import Profile
from elastune.spec import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One sequence of stages on nodes of its own.

    `node_ages_s` are the nodes already held when the first stage begins, empty for a fresh job. What they
    have cost so far (their age) is paid; what is left of their minimum charge is not. `resumes`: the trials
    of the first stage have checkpoints to load.
    """

    stages: tuple[Stage, ...]
    profile: Profile
    cluster: ClusterTerms
    node_ages_s: tuple[float, ...] = ()
    resumes: bool = False

    @property
    def is_deterministic(self) -> bool:
        return self.profile.is_deterministic and self.cluster.is_deterministic
