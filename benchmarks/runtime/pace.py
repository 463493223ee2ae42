"""How fast things end one after the other."""

from __future__ import annotations

from collections.abc import Sequence

Numbers = dict[str, float]


def pace(ends: Sequence[float], part: int) -> Numbers:
    """Seconds per trial in the first, the middle and the last `part` of the trials, by when they ended.

    It counts from the first end: before it is the start of the workers.
    """
    middle = len(ends) // 2 - part // 2
    spans = {"first_s": (0, part), "middle_s": (middle, middle + part), "last_s": (len(ends) - part - 1, -1)}
    return {name: (ends[last] - ends[first]) / part for name, (first, last) in spans.items()}
