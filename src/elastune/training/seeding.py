"""Where the random numbers of a training come from: the seed, the iteration and the rank, nothing else."""

from __future__ import annotations

import random
import sys

import numpy as np


def trial_seed(run_seed: int, trial: int) -> int:
    """A seed for one trial, small enough for every library (scikit-learn takes 32 bits)."""
    return int(np.random.SeedSequence((abs(run_seed), trial)).generate_state(1)[0] >> 1)


def seed_libraries(*entropy: int) -> None:
    """Seed `random`, numpy and, where it is imported, torch."""
    words = np.random.SeedSequence(entropy).generate_state(4)
    random.seed(int(words[0]))
    np.random.seed(words[1:3])  # noqa: NPY002  users call the old functions
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(int(words[3]))


def shuffled(count: int, *entropy: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The numbers below `count` in an order that depends on `entropy` alone."""
    return np.random.default_rng(entropy).permutation(count)
