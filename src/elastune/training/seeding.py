"""Random numbers that depend only on what they are for: trial, iteration, rank.

Continuing from a checkpoint then is like never having stopped, at any gang size.
"""

from __future__ import annotations

import random
import sys

import numpy as np


def seed_libraries(*entropy: int) -> None:
    """Seed `random`, numpy and, where it is imported, torch."""
    words = np.random.SeedSequence(entropy).generate_state(4)
    random.seed(int(words[0]))
    np.random.seed(words[1:3])  # noqa: NPY002  users call the old functions
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(int(words[3]))


def shuffled(count: int, *entropy: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The numbers below `count` in an order that depends on `entropy` only."""
    return np.random.default_rng(entropy).permutation(count)
