"""Bytes over the network, by the formulas of Cerebro's Table 2."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The table's k, m, p, |S|, <D>, |D| and b."""

    epochs: int
    model_bytes: float
    workers: int
    trials: int
    data_bytes: float
    rows: int
    batch: int

    def hopping(self) -> float:
        """k m p |S| + m |S|"""
        return self.model_bytes * self.trials * (self.epochs * self.workers + 1)

    def full_replication(self) -> float:
        """p <D> + m |S|"""
        return self.workers * self.data_bytes + self.model_bytes * self.trials

    def remote_reads(self) -> float:
        """k |S| <D> + m |S|: task-parallel, with the data read again in every epoch"""
        return self.trials * (self.epochs * self.data_bytes + self.model_bytes)

    def model_averaging(self) -> float:
        """2 k m p |S|"""
        return 2 * self.epochs * self.model_bytes * self.workers * self.trials

    def parameter_server(self) -> float:
        """2 k m p |S| ceil(|D| / (b p))"""
        return 2 * self.data_parallel()

    def data_parallel(self) -> float:
        """k m p |S| ceil(|D| / (b p)), where b is what *each* worker takes of a batch."""
        steps = math.ceil(self.rows / self.batch)
        return self.epochs * self.model_bytes * self.workers * self.trials * steps
