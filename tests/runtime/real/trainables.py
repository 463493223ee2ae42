"""Small trainables that do all that users' code may do."""

# ruff: noqa: B023  `save` is called only while the generator waits at its yield
from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import elastune
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
        worker.sum(0)  # its gangs do something together
        yield {"score": config["x"] + 0.001 * done, "done": done}, lambda: {"done": done}


def signs(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """As `count`, with the process that trained each iteration, and how many it trained since its set-up."""
    for since, (row, save) in enumerate(count(config, worker, state), start=1):
        yield {**row, "pid": os.getpid(), "since": since}, save


@elastune.shared
def numbers() -> dict[str, Any]:
    """With the process that loaded them."""
    return {"x": np.arange(1_000_000), "loader": os.getpid()}


def share(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """As `count`, with the file of shared data in which this process finds its numbers. `how` it writes into
    them may be `array` or `memory`."""
    data = numbers()
    x = data["x"]
    for row, save in count(config, worker, state):
        if config.get("how") == "memory":
            ctypes.memset(address_of(x), 1, 8)
        elif config.get("how") == "array":
            x += 1
        about = {"pid": os.getpid(), "loader": data["loader"], "inode": inode_of(x), "seventh": x[7]}
        yield {**row, **about}, save


def address_of(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def inode_of(array: Any) -> int:
    """Of the file whose pages an array is."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, _, _, _, inode, *_ = line.split()
        start, end = (int(each, 16) for each in addresses.split("-"))
        if start <= address_of(array) < end:
            return int(inode)
    raise LookupError("the array is in no mapping")


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


def lonely(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """As `count`, and its gangs share nothing."""
    while True:
        yield {"score": config["x"]}, dict


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


def closes_its_output(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    while True:
        print("hello", worker.iteration)
        sys.stdout.close()
        sys.stderr.close()
        yield {"score": 1.0}, lambda: {"done": True}


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


def repeating(config: Mapping[str, Any], worker: Worker) -> Iterator[dict[str, float]]:
    """As `count`, but it cannot be saved."""
    done = 0
    while True:
        done += 1
        time.sleep(config.get("sleep", 0.0) / worker.size)
        worker.sum(0)  # its gangs do something together
        yield {"score": config["x"] + 0.001 * done, "done": done}


def forgetful(config: Mapping[str, Any]) -> Iterator[float]:
    """Cannot be saved, and is not the same when it is trained again: its length and its score change."""
    times = Path(config["times"])
    before = times.read_text() if times.exists() else ""
    times.write_text(f"{before}again ")
    for _ in range(int(config["length"]) if before else 9):
        yield float(len(before))


def called(config: Mapping[str, Any]) -> dict[str, float]:
    """One call is the whole training, of `epochs` iterations."""
    time.sleep(config["sleep"] * config["epochs"])
    return {"score": config["x"] + 0.001 * config["epochs"], "pid": os.getpid()}


def cross_validated(
    config: Mapping[str, Any], worker: Worker, state: State | None
) -> Iterator[dict[str, float]]:
    """A black box: one iteration, and no model to save."""
    from sklearn.datasets import load_iris  # noqa: PLC0415
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415
    from sklearn.model_selection import cross_val_score  # noqa: PLC0415

    x, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(n_estimators=config["trees"], max_depth=config["depth"], random_state=0)
    yield {"acc": cross_val_score(model, x, y, cv=3).mean()}


def breaks_in_the_second(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    done = state["done"] if state else 0
    while True:
        done += 1
        if done == 2:
            raise ZeroDivisionError("no batches in epoch 2")
        yield {"score": config["x"]}, lambda: {"done": done}


for _each in (count, repeating, signs):
    _each.__dict__["most_slots"] = 64  # gangs without a check
