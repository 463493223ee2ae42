"""BOHB (Falkner et al. 2018): Hyperband whose configurations come from a model of what was seen.

The model is the sampler's (`tpe` unless the job says otherwise), outside the core; here it is Hyperband.
"""

from __future__ import annotations

from elastune.policies.hyperband import Hyperband, make
from elastune.policies.setup import PolicySetup


def create(setup: PolicySetup) -> Hyperband:
    return make("bohb", setup)
