"""The kinds of work in a plan, with their time in one sample: the nodes of the graph in `graph.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from elastune.planning.prediction.draws import Draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(ABC):
    """A node of the graph. It starts when all of `after` (indices of earlier tasks) have ended."""

    stage: int
    after: tuple[int, ...]

    text: ClassVar[str]  # of the label, with the fields of the task

    @abstractmethod
    def latency_s(self, draws: Draws, sample: int) -> float: ...

    @property
    def label(self) -> str:
        return self.text.format(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(Task):
    """One blocking request to the provider: its queue delay."""

    nodes: int
    text: ClassVar[str] = "SCALE +{0.nodes}"

    def latency_s(self, draws: Draws, sample: int) -> float:
        return float(draws.queue_s(self.stage)[sample])


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
    """One trial: gang start-up, iterations, save. It waits for one of the stage's `gangs` gangs.

    `kept`: it goes on in the gang of the stage before, without a start-up.
    """

    trial: int
    slots: int
    gangs: int
    speedup: float
    kept: bool = False
    text: ClassVar[str] = "TRAIN trial {0.trial} on {0.slots}"

    def latency_s(self, draws: Draws, sample: int) -> float:
        block, row = draws.place(self.stage, sample)
        alone = draws.train(self.stage, block, slice(row, row + 1))
        return alone.duration(0, self.trial, self.speedup, kept=self.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop(Task):
    """One epoch of a trial that visits all partitions, never waiting for a worker."""

    epoch: int
    trial: int
    column: int  # its index among the trials of the epoch
    hops_s: float
    stretch: float  # how much longer it takes, because it waits for workers
    slots: ClassVar[int] = 1
    text: ClassVar[str] = "HOP trial {0.trial} through epoch {0.epoch}"

    def latency_s(self, draws: Draws, sample: int) -> float:
        block, row = draws.place(self.stage, sample)
        alone_s = draws.epoch(self.stage, self.epoch, block).duration(row, self.column, 1.0) + self.hops_s
        return self.stretch * alone_s


@dataclass(frozen=True, slots=True, kw_only=True)
class BusiestWorker(Task):
    """The work of the busiest worker in one epoch, never waiting for a model."""

    epoch: int
    part: float
    of: int
    hops_s: float  # of all trials
    stretch: float  # how much longer it takes, because it waits for models
    text: ClassVar[str] = "BUSIEST of {0.of} workers in epoch {0.epoch}"

    def latency_s(self, draws: Draws, sample: int) -> float:
        block, row = draws.place(self.stage, sample)
        durations = draws.epoch(self.stage, self.epoch, block).durations(1.0)
        return self.stretch * self.part * (float(durations[row].sum()) + self.hops_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTogether(Task):
    """One trial on all workers, from an epoch to its end: start-up, epochs, save."""

    epochs: range
    trial: int
    column: int  # its index among the trials left at the first of the epochs
    slots: int
    speedup: float
    text: ClassVar[str] = "TRAIN trial {0.trial} from epoch {0.epochs.start} on all {0.slots} workers"

    def latency_s(self, draws: Draws, sample: int) -> float:
        block, row = draws.place(self.stage, sample)
        return draws.together(self.stage, self.epochs, block).duration(row, self.column, self.speedup)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Task):
    """The barrier that ends a stage."""

    text: ClassVar[str] = "SYNC"

    def latency_s(self, draws: Draws, sample: int) -> float:
        return float(draws.sync_s(self.stage)[sample])
