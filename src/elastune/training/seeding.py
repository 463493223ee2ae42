"""Random numbers that depend only on what they are for: trial, iteration, rank.

Continuing from a checkpoint then is like never having stopped, at any gang size.
"""

from __future__ import annotations

import random
import sys

import numpy as np

_last_entropy: list[tuple[int, ...]] = []


def seed_libraries(*entropy: int) -> None:
    """Seed `random`, numpy and, where it is imported, torch."""
    _last_entropy[:] = [entropy]
    words = np.random.SeedSequence(entropy).generate_state(4)
    random.seed(int(words[0]))
    np.random.seed(words[1:3])  # noqa: NPY002  users call the old functions
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(int(words[3]))


def has_drawn() -> bool:
    """Whether random numbers of the libraries were drawn since they were seeded. Seeds them again."""
    found = _states()
    seed_libraries(*_last_entropy[0])
    return found != _states()


def _states() -> tuple[object, ...]:
    of_numpy = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    torch = sys.modules.get("torch")
    of_torch = b"" if torch is None else torch.get_rng_state().numpy().tobytes()
    return random.getstate(), (of_numpy["key"].tobytes(), of_numpy["pos"]), of_torch


def shuffled(count: int, *entropy: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The numbers below `count` in an order that depends on `entropy` only."""
    return np.random.default_rng(entropy).permutation(count)
