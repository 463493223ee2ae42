"""A training of which nothing is known yet: every trial gets a random rank that it keeps."""

from __future__ import annotations

import random
from collections.abc import Sequence

from elastune.profiles import Profile
from elastune.space import Configuration, Space
from elastune.spec import Mode
from elastune.trainables.protocol import Row


class UnknownCurve:
    length: int | None = None

    def __init__(self, metric: str, value: float) -> None:
        self._row = {metric: value}

    def rows(self, first: int, last: int) -> Sequence[Row]:
        return [self._row] * (last - first + 1)

    def seconds(self, first: int, last: int) -> Sequence[float] | None:
        return None


class UnknownTrainable:
    """For quotes of policies that decide by what they see: what they will see is not known beforehand."""

    mode: Mode | None = None
    space: Space | None = None
    table: Sequence[Configuration] | None = None
    longest: int | None = None

    def __init__(self, metric: str) -> None:
        self.metric = metric

    def curve(self, config: Configuration, seed: tuple[int, int]) -> UnknownCurve:
        return UnknownCurve(self.metric, random.Random(repr(seed)).random())  # noqa: S311

    def profile(self) -> Profile | None:
        return None
