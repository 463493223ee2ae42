"""Grid search; see `full_training`. The grid is the sampler's."""

from __future__ import annotations

from elastune.policies.full_training import FullTraining, make
from elastune.policies.setup import PolicySetup


def create(setup: PolicySetup) -> FullTraining:
    return make("grid", setup)
