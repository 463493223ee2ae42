"""A search to simulate, and what simulating it took."""

from __future__ import annotations

from dataclasses import dataclass

ETA = 3
EPOCH_S = 60.0
NODES = 2
SLOTS_PER_NODE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """ASHA over the table; more trials than configurations draw them with replacement."""

    trials: int
    max_epochs: int
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """`prepare_s` is what comes before the search: opening the table, making the parts."""

    trials: int
    epochs: int
    prepare_s: float
    wall_s: float
    processor_s: float
    best: float

    @property
    def s_per_trial(self) -> float:
        return self.processor_s / self.trials

    @property
    def s_per_epoch(self) -> float:
        return self.processor_s / self.epochs
