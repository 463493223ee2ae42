"""The rows of a table of configurations that somebody has tried before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elastune.space.sampler import Configuration


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
            position = int(np.random.default_rng((self._seed, trial)).integers(len(self._rows)))
            return dict(self._rows[position])
        return dict(self._rows[self._order[trial]]) if trial < len(self._order) else None
