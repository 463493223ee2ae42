"""A training whose weights depend on everything that a gang computes, and on nothing else."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from elastune.training.worker import Worker

State = dict[str, Any]


def train(
    config: Mapping[str, Any], worker: Worker, state: State | None
) -> Iterator[tuple[dict[str, float], Callable[[], State]]]:
    """Workers sum their parts of a gradient. Each tells in the folder `TRACES` on which host it was."""
    weights = np.zeros(50) if state is None else np.asarray(state["weights"])
    done = 0 if state is None else state["done"]
    while True:
        done += 1
        time.sleep(config.get("pause", 0.1))
        noise = np.random.default_rng(1000 * done + worker.rank).normal(size=50)
        total = worker.sum(float(noise.sum()))
        weights = weights + config["x"] * (1.0 - weights) + 0.001 * total
        trace = f"{socket.gethostname()} {done} {worker.rank} {worker.size}\n"
        with Path(os.environ.get("TRACES", "/tmp"), f"trace-{os.getpid()}").open("a") as file:
            file.write(trace)
        yield {"score": float(weights.mean())}, partial(_state, weights.tolist(), done)


def _state(weights: list[float], done: int) -> State:
    return {"weights": weights, "done": done}


train.__dict__["most_slots"] = 64  # gangs without a check
