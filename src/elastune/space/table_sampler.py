"""The rows of a table of configurations that somebody has tried before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elastune.space.sampler import Configuration

_MASK = 2**64 - 1


class TableSampler:
    """The rows in an order given by the seed, each once; with `replace` each trial draws among all rows."""

    def __init__(self, rows: Sequence[Configuration], *, seed: int, replace: bool = False) -> None:
        self.size = None if replace else len(rows)
        self._rows = rows
        self._seed = seed
        self._order: list[int] | None = (
            None if replace else np.random.default_rng(seed).permutation(len(rows)).tolist()
        )

    def ask(self, trial: int) -> Configuration | None:
        if self._order is None:
            return dict(self._rows[_scramble(_scramble(self._seed) + trial) % len(self._rows)])
        return dict(self._rows[self._order[trial]]) if trial < len(self._order) else None


def _scramble(number: int) -> int:
    """A random-looking 64-bit number for each number (splitmix64).

    To seed a generator of numpy takes 15 us, as long as all else about a trial's configuration.
    """
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)
