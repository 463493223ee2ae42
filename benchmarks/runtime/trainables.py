"""What is trained where only the system is to take time: nothing at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from elastune.training.worker import Worker

Yielded = Iterator[tuple[dict[str, float], Callable[[], dict[str, Any]]]]


def curve(config: Mapping[str, Any], iteration: int) -> float:
    """The score of `weights.scaled` after so many iterations, for simulations."""
    return float(config["x"]) * (1.0 - 0.5 / iteration)


def tick(config: Mapping[str, Any], worker: Worker, state: dict[str, Any] | None) -> Yielded:  # noqa: ARG001
    """An iteration takes no time, or `sleep` seconds whatever the gang; `at` is when it ended."""
    done = state["done"] if state else 0

    def save() -> dict[str, Any]:
        return {"done": done}

    while True:
        done += 1
        if config.get("sleep"):
            time.sleep(config["sleep"])
        yield {"score": config["x"], "at": time.monotonic()}, save
