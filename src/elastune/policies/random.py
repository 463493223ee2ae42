"""Random search; see `full_training`."""

from __future__ import annotations

from elastune.policies.full_training import FullTraining, FullTrainingOptions
from elastune.policies.setup import PolicySetup


def create(setup: PolicySetup) -> FullTraining:
    options = setup.read(FullTrainingOptions)
    trials = 1 if options.trials is None and options.max_iterations is None else options.trials
    return FullTraining(trials=trials, max_iterations=options.max_iterations)
