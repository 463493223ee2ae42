"""Processor time of a call: what else the machine does hardly counts (planning runs on one core)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


ENOUGH_S = 2.0


def median_s(prepare: Callable[[], T], act: Callable[[T], object], *, repeats: int = 9) -> float:
    """Median processor seconds of `act` on what `prepare` gives; preparing is not timed, nothing used twice.

    What takes longer than two seconds in all is not repeated.
    """
    seconds = []
    for _ in range(repeats):
        prepared = prepare()
        start = time.process_time()
        act(prepared)
        seconds.append(time.process_time() - start)
        if sum(seconds) > ENOUGH_S:
            break
    return statistics.median(seconds)
