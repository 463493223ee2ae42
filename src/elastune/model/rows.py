"""The rows of one report as columns: a journal may have millions, and a column is read ten times as fast as
its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast


class Rows:
    """`values`: of the job's metric, as reported; None where a row has none. `finite`: the same if each is a
    finite float, else nothing."""

    __slots__ = ("finite", "iterations", "times_s", "values")

    def __init__(self, rows: Sequence[tuple[int, float, Mapping[str, float]]], metric: str) -> None:
        self.iterations = [row[0] for row in rows]
        self.times_s = [row[1] for row in rows]
        self.values: list[float | None] = [row[2].get(metric) for row in rows]
        self.finite = _finite(self.values)

    def follow(self, iteration: int) -> bool:
        """Whether they are the next iterations, one after the other, and at least one."""
        count = len(self.iterations)
        return count > 0 and self.iterations == list(range(iteration + 1, iteration + 1 + count))


def _finite(values: list[float | None]) -> list[float]:
    floats = cast("list[float]", values)
    return floats if set(map(type, values)) == {float} and math.isfinite(sum(floats)) else []
