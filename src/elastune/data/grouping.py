"""Files into partitions: neighbours stay together, and the largest partition is as small as can be."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


def group(sizes: Sequence[int], count: int) -> list[range]:
    """`count` runs of numbers, none empty: the largest sum is the least possible, the others much alike."""
    sums = [0, *accumulate(sizes)]
    largest = _least_largest(sums, max(sizes), count)
    groups: list[range] = []
    start = 0
    for left in range(count, 0, -1):
        end = min(_reach(sums, start, largest), len(sizes) - left + 1)
        average = (sums[-1] - sums[start]) / left
        while _is_better_without_last(sums, start, end, average) and _fits(sums, end - 1, largest, left - 1):
            end -= 1
        groups.append(range(start, end))
        start = end
    return groups


def _least_largest(sums: Sequence[int], low: int, count: int) -> int:
    high = sums[-1]
    while low < high:
        middle = (low + high) // 2
        if _fits(sums, 0, middle, count):
            high = middle
        else:
            low = middle + 1
    return low


def _fits(sums: Sequence[int], start: int, largest: int, count: int) -> bool:
    """Whether the files from `start` go into so many groups when each takes all it can."""
    end = len(sums) - 1
    while start < end and count:
        start = _reach(sums, start, largest)
        count -= 1
    return start == end


def _reach(sums: Sequence[int], start: int, largest: int) -> int:
    """Where a group that begins at `start` has to end."""
    return bisect_right(sums, sums[start] + largest) - 1


def _is_better_without_last(sums: Sequence[int], start: int, end: int, average: float) -> bool:
    without = sums[end - 1] - sums[start]
    return end - 1 > start and abs(without - average) < abs(sums[end] - sums[start] - average)
