"""Trainables for gangs, in a module of their own: who imports it imports torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from benchmarks.runtime.trainables import curve
from elastune.training.worker import Worker

Yielded = Iterator[tuple[dict[str, float], Callable[[], dict[str, Any]]]]


def weighty(config: Mapping[str, Any], worker: Worker, state: dict[str, Any] | None) -> Yielded:
    """A state of `megabytes`; an iteration takes `sleep` seconds and one sum over the gang."""
    weights = torch.zeros(config["megabytes"] * 250_000) if state is None else state["weights"]

    def save() -> dict[str, Any]:
        return {"weights": weights}

    while True:
        time.sleep(config["sleep"])
        weights += worker.mean(float(weights[0]) + 1.0)
        yield {"score": config["x"], "at": time.monotonic()}, save


def scaled(config: Mapping[str, Any], worker: Worker, state: dict[str, Any] | None) -> Yielded:
    """An iteration takes `sleep` seconds on one slot, and `sleep / size ** scaling` on several."""
    done = state["done"] if state else 0
    seconds = config["sleep"] / worker.size ** config["scaling"]

    def save() -> dict[str, Any]:
        return {"done": done}

    while True:
        time.sleep(seconds)
        worker.sum(0)  # a gang that exchanges nothing is refused
        done += 1
        yield {"score": curve(config, done)}, save
