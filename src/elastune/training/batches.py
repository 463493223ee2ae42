"""One global order of the samples, cut into batches, and of each batch the share of one rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from elastune.errors import JobError
from elastune.training.columns import Rows
from elastune.wording import seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one rank does of a global batch of `total` samples; none, where the batch is too small."""

    rows: Rows
    total: int

    def micros(self, most: int | None) -> list[Rows]:
        """At least one, if an empty one: whoever has nothing to do still adds up the gradients."""
        if most is None or self.rows.size <= most:
            return [self.rows]
        return [self.rows[start : start + most] for start in range(0, self.rows.size, most)]


def shares(order: Rows, batch: int, rank: int, size: int, *, drop_last: bool) -> Iterator[Share]:
    """Consecutive pieces whose sizes differ by one at most; the first ranks have the longer ones."""
    end = order.size - order.size % batch if drop_last else order.size
    for start in range(0, end, batch):
        rows = order[start : start + batch]
        least, more = divmod(rows.size, size)
        first = rank * least + min(rank, more)
        yield Share(rows=rows[first : first + least + (rank < more)], total=int(rows.size))


def proportional_shares(
    order: Rows, batch: int, rank: int, counts: Sequence[int], *, drop_last: bool
) -> Iterator[Share]:
    """Where every rank has samples of its own (`counts`): all are through after the same number of batches,
    and each gives of its own to every one of them in proportion."""
    total = sum(counts)
    batches = total // batch if drop_last and total >= batch else -(-total // batch)
    for number in range(batches):
        pieces = [range(count * number // batches, count * (number + 1) // batches) for count in counts]
        mine = pieces[rank]
        yield Share(rows=order[mine.start : mine.stop], total=sum(len(piece) for piece in pieces))


def checked_count(value: object, name: str) -> int:
    """A number of samples."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise JobError(f"worker.batches: {name} is {seen(value)}; expected a whole number of samples from 1")
    return int(value)
