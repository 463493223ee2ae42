"""Small trainables that do all that users' code may do."""

# ruff: noqa: B023  `save` is called only while the generator waits at its yield
from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from elastune.training.worker import Worker

State = dict[str, Any]
Yielded = Iterator[tuple[dict[str, float], Callable[[], State]]]


def count(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Counts iterations; `x` is the score, and more iterations are better. From `held_at` on they wait for a
    file, the `gate`."""
    done = state["done"] if state else 0
    while True:
        done += 1
        while done >= config.get("held_at", math.inf) and not Path(config["gate"]).exists():
            time.sleep(0.02)
        time.sleep(config.get("sleep", 0.0) / worker.size)
        yield {"score": config["x"] + 0.001 * done, "done": done}, lambda: {"done": done}


def misbehave(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """As `count`, but at iteration 3 it does what `how` says, once per attempt."""
    done = state["done"] if state else 0
    while True:
        done += 1
        if done == 3:
            _do(config["how"], config)
        yield (
            {"score": float("nan") if done == 3 and config["how"] == "nan" else done},
            lambda: {"done": done},
        )


def _do(how: str, config: Mapping[str, Any]) -> None:
    match how:
        case "raise":
            raise ValueError("the learning rate is a lie")
        case "exit":
            raise SystemExit(3)
        case "hard-exit":
            os._exit(7)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "hang":
            if "hangs" in config:
                Path(config["hangs"]).touch()
            time.sleep(3600)


def finite(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Has nothing more to train after `length` iterations."""
    done = state["done"] if state else 0
    while done < config["length"]:
        done += 1
        yield {"score": float(done)}, lambda: {"done": done}


def second_rank_raises(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Rank 0 sees only that its peer is gone."""
    for done in range(1, 10):
        if done == 2 and worker.rank == 1:
            raise ValueError("only rank 1 knows why")
        yield {"score": worker.mean(float(done))}, dict


def chatty(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    for done in range(1, 10):
        print("hello", done)
        yield {"score": float(done)}, dict


def wanders(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Leaves the working folder, and an environment variable behind."""
    met = float("ELASTUNE_WAS_HERE" in os.environ)
    os.environ["ELASTUNE_WAS_HERE"] = "1"
    os.chdir("/")
    yield {"score": met}, dict


def helped(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Forks a helper, which inherits everything, and then dies."""
    pid = os.fork()
    if not pid:
        time.sleep(3600)
    yield {"score": float(pid)}, dict
    os._exit(9)


def slow_goodbye(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    try:
        while True:
            yield {"score": 1.0}, dict
    finally:
        time.sleep(config.get("goodbye", 3600))


def linear(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """A torch model that is trained by a gang."""
    import torch  # noqa: PLC0415  the other trainables here need none

    model = torch.nn.Linear(8, 1)
    if state is not None:
        model.load_state_dict(state)
    wrapped = worker.wrap(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
    data = torch.arange(256.0).reshape(32, 8) / 256
    while True:
        for x in worker.batches(data, 16):
            optimizer.zero_grad()
            worker.backward((wrapped(x) - 1.0).square().sum())
            optimizer.step()
        yield {"score": float(model.weight.sum())}, lambda: dict(model.state_dict())
