"""Random search: each trial's configuration is drawn independently from the space."""

from __future__ import annotations

import numpy as np

from elastune.space.quantile import quantile
from elastune.space.sampler import Configuration
from elastune.space.space import Space


class RandomSampler:
    """One uniform number per hyperparameter, from a generator seeded by (seed, trial)."""

    size = None

    def __init__(self, space: Space, *, seed: int) -> None:
        self._seed = seed
        # All names in the written order; asking fills in what is drawn.
        self._template = dict.fromkeys(space.entries) | space.constants
        self._quantiles = [(name, quantile(each)) for name, each in space.distributions.items()]

    def ask(self, trial: int) -> Configuration:
        shares = np.random.default_rng((self._seed, trial)).random(len(self._quantiles)).tolist()
        configuration = self._template.copy()
        for (name, value_at), share in zip(self._quantiles, shares, strict=True):
            configuration[name] = value_at(share)
        return configuration
