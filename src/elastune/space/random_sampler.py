"""Random search: each trial's configuration is drawn independently from the space."""

from __future__ import annotations

import numpy as np

from elastune.space.sampler import AnySpace, Configuration
from elastune.space.space import Space
from elastune.space.space_sampler import ShareSampler


class RandomSampler(ShareSampler):
    """One uniform number per hyperparameter, from a generator seeded by (seed, trial)."""

    def __init__(self, space: AnySpace, *, seed: int) -> None:
        super().__init__(space, seed=seed)
        self._is_plain = isinstance(space, Space) and not space.is_conditional
        # All names in the written order; asking fills in what is drawn.
        self._template = dict.fromkeys(space.entries) | space.constants if isinstance(space, Space) else {}

    def shares(self, trial: int) -> list[float]:
        shares: list[float] = np.random.default_rng((self._seed, trial)).random(self._count).tolist()
        return shares

    def ask(self, trial: int) -> Configuration:
        if not self._is_plain:
            return self._space.configure(self.draw(trial))
        # The same without a call per hyperparameter: large searches ask for a million configurations.
        configuration = self._template.copy()
        for (name, value_at), share in zip(self._quantiles.items(), self.shares(trial), strict=True):
            configuration[name] = value_at(share)
        return configuration
