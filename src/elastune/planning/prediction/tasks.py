"""The kinds of work that a plan is made of: the nodes of the graph in `dag.py`.

Each says how long it takes in one sample. A new kind of work is one more class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from elastune.planning.prediction.draws import BLOCK, Draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(ABC):
    """A node of the graph. It starts when all of `after` (indices of earlier tasks) have ended."""

    stage: int
    after: tuple[int, ...]

    @abstractmethod
    def latency_s(self, draws: Draws, sample: int) -> float: ...

    @property
    def label(self) -> str:
        return type(self).__name__.upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(Task):
    """One blocking request to the provider: its queue delay."""

    nodes: int

    def latency_s(self, draws: Draws, sample: int) -> float:
        return float(draws.queue_s(self.stage)[sample])

    @property
    def label(self) -> str:
        return f"SCALE +{self.nodes}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitInstance(Task):
    """One new node boots and installs what it needs. It is billed from the start of this task."""

    node: int
    of: int

    def latency_s(self, draws: Draws, sample: int) -> float:
        return float(draws.inits_s(self.stage, self.of)[self.node, sample])

    @property
    def label(self) -> str:
        return f"INIT_INSTANCE {self.node + 1}/{self.of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTask(Task):
    """One trial: gang start-up, iterations, save. It waits for one of the stage's `gangs` gangs."""

    trial: int
    slots: int
    gangs: int
    speedup: float

    def latency_s(self, draws: Draws, sample: int) -> float:
        block, row = divmod(sample, BLOCK)
        return draws.train(self.stage, block).duration(row, self.trial, self.speedup)

    @property
    def label(self) -> str:
        return f"TRAIN trial {self.trial} on {self.slots}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop(Task):
    """One epoch of a trial that visits all partitions, never waiting for a worker."""

    epoch: int
    trial: int
    column: int
    """Its place among those that take part in the epoch."""
    hops_s: float

    slots: ClassVar[int] = 1

    def latency_s(self, draws: Draws, sample: int) -> float:
        block, row = divmod(sample, BLOCK)
        return draws.epoch(self.stage, self.epoch, block).duration(row, self.column, 1.0) + self.hops_s

    @property
    def label(self) -> str:
        return f"HOP trial {self.trial} through epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusiestWorker(Task):
    """What the busiest worker has to do in one epoch, never waiting for a model."""

    epoch: int
    part: float
    of: int
    hops_s: float
    """Of all trials."""

    def latency_s(self, draws: Draws, sample: int) -> float:
        block, row = divmod(sample, BLOCK)
        durations = draws.epoch(self.stage, self.epoch, block).durations(1.0)
        return self.part * (float(durations[row].sum()) + self.hops_s)

    @property
    def label(self) -> str:
        return f"BUSIEST of {self.of} workers in epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTogether(Task):
    """One trial that has all the workers, from an epoch to its end: start-up, epochs, save."""

    epochs: range
    trial: int
    column: int
    """Its place among those that are left at the first of the epochs."""
    slots: int
    speedup: float

    def latency_s(self, draws: Draws, sample: int) -> float:
        block, row = divmod(sample, BLOCK)
        return draws.together(self.stage, self.epochs, block).duration(row, self.column, self.speedup)

    @property
    def label(self) -> str:
        return f"TRAIN trial {self.trial} from epoch {self.epochs.start} on all {self.slots} workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Task):
    """The barrier that ends a stage."""

    def latency_s(self, draws: Draws, sample: int) -> float:
        return float(draws.sync_s(self.stage)[sample])
