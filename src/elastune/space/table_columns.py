"""The columns of a table as numbers, for distances and models.

Numbers are replaced by their ranks, from 0 to 1, so that units and logarithms do not matter. A column with
other values is a choice among them. Columns with one value only are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import CategoricalDistribution, FloatDistribution

from elastune.model.configuration import Configuration
from elastune.space.space import Domain, Space


class TableColumns:
    """`space` has a range for the ranks of each column of numbers, and a choice for each other column."""

    def __init__(self, rows: Sequence[Configuration]) -> None:
        entries: dict[str, Domain] = {}
        self._count = len(rows)
        self._ranks: dict[str, NDArray[np.float64]] = {}
        self._choices: dict[str, NDArray[np.str_]] = {}
        for name in rows[0]:
            values = [row[name] for row in rows]
            if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
                different, ranks = np.unique(np.array(values, dtype=np.float64), return_inverse=True)
                if different.size > 1:
                    self._ranks[name] = ranks / (different.size - 1)
                    entries[name] = Domain(distribution=FloatDistribution(0.0, 1.0))
                continue
            texts = [f"{type(value).__name__} {value}" for value in values]
            if len(levels := dict.fromkeys(texts)) > 1:
                self._choices[name] = np.array(texts)
                entries[name] = Domain(distribution=CategoricalDistribution(tuple(levels)))
        self.space = Space(entries)

    def point(self, row: int) -> Configuration:
        """A row of the table in this space."""
        numbers = {name: float(ranks[row]) for name, ranks in self._ranks.items()}
        return numbers | {name: str(texts[row]) for name, texts in self._choices.items()}

    def distances(self, point: Configuration) -> NDArray[np.float64]:
        """Of all rows: the sum over the columns; another choice is as far as a number's range."""
        apart = np.zeros(self._count)
        for name, ranks in self._ranks.items():
            apart += np.abs(ranks - point[name])  # type: ignore[operator]  # a rank
        for choice, texts in self._choices.items():
            apart += texts != point[choice]
        return apart
