"""Grid search; see `full_training`. The grid is the sampler's."""

from __future__ import annotations

from elastune.policies.full_training import FullTraining, FullTrainingOptions
from elastune.policies.setup import PolicySetup


def create(setup: PolicySetup) -> FullTraining:
    options = setup.read(FullTrainingOptions)
    return FullTraining(trials=options.trials, max_iterations=options.max_iterations)
