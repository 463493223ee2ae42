"""BOHB (Falkner et al. 2018): Hyperband whose configurations come from a model of what was seen.

The model is the sampler's (`tpe` unless the job says otherwise), outside the core; here it is Hyperband.
"""

from __future__ import annotations

from elastune.policies.hyperband import Hyperband, make
from elastune.policies.rungs import HalvingOptions
from elastune.policies.setup import PolicySetup
from elastune.quantities import Flag


class BohbOptions(HalvingOptions):
    """`repeat`: after the last bracket comes the first one again."""

    repeat: Flag = False


def create(setup: PolicySetup) -> Hyperband:
    options = setup.read(BohbOptions)
    return make(options, repeat=options.repeat)
