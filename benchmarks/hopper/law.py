"""How long training takes, as a law, for iterations that sleep.

One worker takes the same time for every row. Several workers on one model (data-parallel) share the rows of
each batch and then add up their gradients: a ring, in which every worker sends and takes the model almost
twice per batch, whatever the batch is. This is what makes them wait for each other (Cerebro section 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """`row_s`: of one row on one worker. `reduce_s`: to send the whole model once from worker to worker."""

    row_s: float
    reduce_s: float
    batch: float

    @classmethod
    def of_network(cls, *, rows_per_s: float, model_bytes: float, bytes_per_s: float, batch: int) -> Law:
        return cls(row_s=1.0 / rows_per_s, reduce_s=model_bytes / bytes_per_s, batch=batch)

    def shrunk(self, factor: float) -> Law:
        """The same law on a clock that is so many times as fast."""
        return Law(row_s=self.row_s / factor, reduce_s=self.reduce_s / factor, batch=self.batch)

    def seconds(self, rows: int, workers: int) -> float:
        """For so many rows of all workers together."""
        return rows * self.row_s / workers + math.ceil(rows / self.batch) * self._reducing_s(workers)

    def averaging_s(self, rows: int, workers: int) -> float:
        """Where workers train by themselves and take the mean of their models once."""
        return rows * self.row_s / workers + self._reducing_s(workers)

    def _reducing_s(self, workers: int) -> float:
        return 2.0 * (workers - 1) / workers * self.reduce_s

    def speedup(self, workers: int) -> float:
        rows = int(1000 * self.batch)
        return self.seconds(rows, 1) / self.seconds(rows, workers)


# A ResNet-50: 100 MB of weights, 200 pictures per second on one worker, and a network of 10 Gbit/s.
RESNET = Law.of_network(rows_per_s=200.0, model_bytes=100e6, bytes_per_s=1.25e9, batch=64)
