"""Whose training ends before its time, and when."""

from __future__ import annotations

import numpy as np

from elastune.core.commands import Train
from elastune.place import TrialId

CRASH = 103
KILL = 106


class GangLuck:
    """Drawn per gang, so that a trial that is tried again may have better luck.

    `kind` is part of the seed.
    """

    def __init__(self, probability: float, seed: int, kind: int) -> None:
        self._probability = probability
        self._seed = seed
        self._kind = kind

    def after(self, trial: TrialId, lease: Train) -> int | None:
        """The iteration after which it happens to this gang; None: it does not."""
        if not self._probability:
            return None
        rng = np.random.default_rng((self._seed, self._kind, trial, lease.generation))
        if rng.random() >= self._probability:
            return None
        return int(rng.integers(lease.after_iteration, max(lease.after_iteration + 1, lease.until_iteration)))
