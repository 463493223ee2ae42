"""Whose training crashes, and when."""

from __future__ import annotations

import numpy as np

from elastune.core.commands import Train
from elastune.place import TrialId

_KIND = 103


class CrashLuck:
    """Drawn per gang, so that a trial that is tried again may have better luck."""

    def __init__(self, probability: float, seed: int) -> None:
        self._probability = probability
        self._seed = seed

    def after(self, trial: TrialId, lease: Train) -> int | None:
        """The iteration after which this gang crashes; None: it does not."""
        if not self._probability:
            return None
        rng = np.random.default_rng((self._seed, _KIND, trial, lease.generation))
        if rng.random() >= self._probability:
            return None
        return int(rng.integers(lease.after_iteration, max(lease.after_iteration + 1, lease.until_iteration)))
