"""One visit of a model to a partition, the same wherever it happens: in a run, or when a run is retraced."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from elastune.training.groups import Solo
from elastune.training.recipe import Recipe
from elastune.training.running import Row, Training
from elastune.training.trainable import State
from elastune.training.worker import make_worker

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a visit is about."""

    data: Any
    partition: int
    rows: int
    iteration: int
    evaluates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under which it happens. With other threads or on another device sums of floats come out differently."""

    seed: int
    device: str = "cpu"
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class VisitOutcome(Generic[Result]):
    metrics: Row
    seconds: float
    """Of training, or evaluating, alone."""
    kept: Result


def make_visit(
    recipe: Recipe,
    config: Mapping[str, Any],
    state: State | None,
    shown: Shown,
    conditions: Conditions,
    keep: Callable[[Training], Result],
) -> VisitOutcome[Result] | None:
    """A new instance goes on from `state`; None: there was nothing left to learn.

    `keep` takes what is wanted of the training before it is closed.
    """
    worker = make_worker(Solo(), seed=conditions.seed, device=conditions.device, threads=conditions.threads)
    worker.show(shown.data, partition=shown.partition, rows=shown.rows)
    training = recipe.start(dict(config), worker, state)
    try:
        began = time.monotonic()
        worker.iteration = shown.iteration
        metrics = training.evaluate() if shown.evaluates else training.step()
        seconds = time.monotonic() - began
        return None if metrics is None else VisitOutcome(metrics, seconds, keep(training))
    finally:
        training.close()
