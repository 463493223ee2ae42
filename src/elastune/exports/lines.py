"""A run as lines of two tables: one per trial, one per iteration that was trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from elastune.core.events import Config
from elastune.spec.mode import Mode

OVER = ("stopped", "finished", "failed")
"""The statuses of trials that will not go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """Which run it is, and which metric counts in it."""

    run: str
    name: str
    policy: str
    seed: int
    body: str
    created_utc: datetime
    metric: str
    mode: Mode

    def wall_s(self, at_s: float) -> float:
        """A time of the run as seconds since 1970. The run's clock stands still while its driver is down."""
        return self.created_utc.timestamp() + at_s


class RowLine(NamedTuple):
    """What one iteration yielded. `generation` tells the gangs of a trial apart."""

    trial: int
    iteration: int
    at_s: float
    metrics: Mapping[str, float]
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLine:
    """A trial as it stands. Times are seconds of the run; None is what is not known, or not yet."""

    trial: int
    status: str
    iterations: int
    """The last iteration that was trained, a parent's among them."""
    final: float | None
    best: float | None
    best_iteration: int | None
    started_s: float | None
    ended_s: float | None
    """When it last had slots; None: it has them now, or never had."""
    seconds: float
    """For which it had slots."""
    slot_seconds: float
    cost: float
    """Its slots at the price of their nodes: without boots, idle slots and minimum charges."""
    slots: int | None
    nodes: tuple[str, ...]
    """Of its last gang."""
    parent: int | None
    crashes: int
    error: str | None
    checkpoint: str | None
    config: Config

    @property
    def is_over(self) -> bool:
        return self.status in OVER


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What has changed since the last time: trials that are new or differ, rows that came."""

    trials: tuple[TrialLine, ...]
    rows: tuple[RowLine, ...]
    ending: str | None = None
    """How the run ended; None: it has not."""
    best: TrialLine | None = None


def without_lost(rows: Iterable[RowLine]) -> list[RowLine]:
    """Each iteration of a trial once, in the order of time.

    What was lost with a machine and trained again counts as it was the last time.
    """
    listed = list(rows)
    # News of a gang that is gone may come after that of its successor.
    order = sorted(range(len(listed)), key=lambda index: listed[index].generation)
    lowest: dict[int, int] = {}
    kept: list[int] = []
    for index in reversed(order):
        row = listed[index]
        if row.iteration < lowest.get(row.trial, row.iteration + 1):
            lowest[row.trial] = row.iteration
            kept.append(index)
    return in_order(listed[index] for index in sorted(kept))


def in_order(rows: Iterable[RowLine]) -> list[RowLine]:
    """By time: trials report in batches."""
    return sorted(rows, key=lambda row: row.at_s)
