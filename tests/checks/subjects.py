"""Scripts as users write them: some right, most with one mistake that only shows in a run."""

# ruff: noqa: B023  `save` is called only while the generator waits at its yield
from __future__ import annotations

import math
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import elastune
from elastune.adapters.xgboost import xgboost_trainable
from elastune.training.worker import Worker

State = Mapping[str, Any]
Yielded = Iterator[tuple[Mapping[str, float], Callable[[], State]]]
_MODEL = np.zeros(3)


# Functions.


def good(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Random numbers are those of the iteration, so a new instance draws the same."""
    weights = np.zeros(3) if state is None else state["weights"]
    done = 0 if state is None else state["done"]
    while True:
        worker.enter_iteration()
        weights = weights + config["lr"] * np.random.standard_normal(3)  # noqa: NPY002
        done += 1
        _note_step(config)
        yield {"accuracy": float(weights.sum()), "done": done}, lambda: {"weights": weights, "done": done}


@elastune.shared
def table() -> Any:
    return np.zeros(10_000)


def scales_table(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    x = table()
    while True:
        x *= config["lr"]
        yield {"accuracy": float(x.sum())}, lambda: {"lr": config["lr"]}


def _note_step(config: Mapping[str, Any]) -> None:
    if "steps" in config:
        with Path(config["steps"]).open("a", encoding="utf-8") as file:
            file.write("step\n")


def other_metric(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    yield {"acc": 0.5, "loss": 1.0}, dict


def diverges(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    while True:
        yield {"accuracy": math.nan if config["lr"] > 0.0 else 0.5}, lambda: {"lr": config["lr"]}


def diverges_sometimes(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    while True:
        yield {"accuracy": math.inf if config["lr"] > 0.5 else 0.5}, lambda: {"lr": config["lr"]}


def starts_again(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Says that it continues, and does not."""
    weights = np.zeros(3)
    print("a new trial" if state is None else "a trial goes on")
    while True:
        worker.enter_iteration()
        weights = weights + np.random.standard_normal(3)  # noqa: NPY002
        yield {"accuracy": float(weights.sum())}, lambda: {"weights": weights}


def ignores_state(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Saves, and has no line that reads `state`."""
    weights = np.zeros(3)
    while True:
        worker.enter_iteration()
        weights = weights + np.random.standard_normal(3)  # noqa: NPY002
        yield {"accuracy": float(weights.sum())}, lambda: {"weights": weights}


def forgets_momentum(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    weights, momentum = np.zeros(3) if state is None else state["weights"], np.zeros(3)
    while True:
        worker.enter_iteration()
        momentum = 0.9 * momentum + np.random.standard_normal(3)  # noqa: NPY002
        weights = weights + momentum
        yield {"accuracy": float(weights.sum())}, lambda: {"weights": weights, "momentum": momentum}


class Optimizer:
    """As one of torch, as far as a check looks."""

    def __init__(self) -> None:
        self.param_groups: list[object] = []
        self.state: dict[str, Any] = {"momentum": np.zeros(3)}

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state, "param_groups": self.param_groups}


def saves_no_optimizer(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    weights, opt = np.zeros(3) if state is None else state["weights"], Optimizer()
    while True:
        worker.enter_iteration()
        opt.state["momentum"] = 0.9 * opt.state["momentum"] + np.random.standard_normal(3)  # noqa: NPY002
        weights = weights + opt.state["momentum"]
        yield {"accuracy": float(weights.sum())}, lambda: {"weights": weights}


class Refusing:
    """Has nothing but what it has, and says so in its own way."""

    def __getattr__(self, name: str) -> NoReturn:
        raise LookupError(name)


def with_a_proxy(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    proxy, done = Refusing(), 0 if state is None else state["done"]
    while True:
        done += 1
        yield {"accuracy": config["lr"] * done + 0.0 * len(vars(proxy))}, lambda: {"done": done}


class Schedule:
    """As one of torch, as far as a check looks."""

    def __init__(self) -> None:
        self.last_epoch = 0

    def step(self) -> None:
        self.last_epoch += 1


def forgets_schedule(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """The third iteration would be the first to differ after a pause."""
    weights, schedule = np.zeros(3) if state is None else state["weights"], Schedule()
    while True:
        weights = weights + config["lr"] * 0.1 ** (schedule.last_epoch // 2)
        schedule.step()
        yield {"accuracy": float(weights.sum())}, lambda: {"weights": weights}


def forgets_epoch(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    weights = np.zeros(3) if state is None else state["weights"]
    for epoch in range(9):
        weights = weights + config["lr"] * 0.5**epoch
        yield {"accuracy": float(weights.sum())}, lambda: {"weights": weights}


def around_it(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    yield from forgets_epoch(config, worker, state)


def counts_for_itself(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    weights = np.zeros(3) if state is None else state["weights"]
    for epoch in range(9):
        print("epoch", epoch)
        weights = weights + config["lr"]
        yield {"accuracy": float(weights.sum())}, lambda: {"weights": weights}


def goes_on_after_its_end(config: Mapping[str, Any]) -> Iterator[float]:
    for _ in range(2):
        try:
            yield float(config["lr"])
        except:  # noqa: E722
            print("goes on")


def closes_its_output(config: Mapping[str, Any]) -> Iterator[float]:
    sys.stderr.close()
    if config["lr"] > 0:
        raise ValueError("in the first epoch")
    yield float(config["lr"])


_COUNTED = {"steps": 0}


def slower_with_each_trial(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Its learning rate falls with a counter of the process."""
    weights = 0.0 if state is None else state["weights"]
    while True:
        _COUNTED["steps"] += 1
        weights = weights + config["lr"] * 0.5 ** _COUNTED["steps"]
        yield {"accuracy": weights}, lambda: {"weights": weights}


def counts_calls(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    weights = 0.0 if state is None else state["weights"]
    while True:
        _COUNTED["steps"] += 1
        weights = weights + config["lr"]
        yield {"accuracy": weights}, lambda: {"weights": weights}


def other_name(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Its space says `lr`."""
    weights, rate = 0.0 if state is None else state["weights"], config.get("learning_rate", 0.1)
    while True:
        weights = weights + rate
        yield {"accuracy": weights}, lambda: {"weights": weights}


def needs_a_plain_dict(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    import yaml  # noqa: PLC0415

    rate = yaml.safe_load(yaml.safe_dump(config))["lr"]
    weights = 0.0 if state is None else state["weights"]
    while True:
        weights = weights + rate
        yield {"accuracy": weights}, lambda: {"weights": weights}


_PICTURES, _LABELS = np.full(6, 255.0), [np.arange(6.0)]
_CACHE: dict[str, Any] = {}


def scales_its_data(config: Mapping[str, Any]) -> Iterator[float]:
    global _PICTURES  # noqa: PLW0603
    _PICTURES = _PICTURES / 255
    np.multiply(_LABELS[0], config["lr"], out=_LABELS[0])
    _CACHE["rows"] = np.ones(3)
    while True:
        yield float(_PICTURES.sum())


def shuffles(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    weights = np.zeros(3) if state is None else state["weights"]
    while True:
        weights = weights + np.random.standard_normal(3)  # noqa: NPY002
        yield {"accuracy": float(weights.sum())}, lambda: {"weights": weights}


def unseeded(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    source = random.SystemRandom()
    done = 0 if state is None else state["done"]
    while True:
        done += 1
        yield {"accuracy": source.random()}, lambda: {"done": done}


def yields_its_state(config: Mapping[str, Any], worker: Worker, state: State | None) -> Any:
    while True:
        yield {"accuracy": 0.5}, {"lr": config["lr"], "done": state}


def once(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    if state is None:
        yield {"accuracy": 0.5}, lambda: {"done": 1}


def raises(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    done = state["done"] if state else 0
    yield {"accuracy": 0.5}, lambda: {"done": done + 1}
    raise ValueError("shapes (3,) and (4,) do not match")


def forgets_to_return(config: Any) -> None:
    float(config["lr"])


def as_text(config: Any) -> dict[str, str]:
    return {"accuracy": f"{config['lr']}"}


def takes_one_value(lr: Any) -> float:
    return float(lr * 2)


def black_box(config: Mapping[str, Any]) -> float:
    _note_step(config)
    return float(config["lr"])


def reports_only(config: Mapping[str, Any]) -> Iterator[float]:
    while True:
        _note_step(config)
        yield float(config["lr"])


def hangs(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    print("about to wait", flush=True)
    time.sleep(3600)
    yield {"accuracy": 0.5}, dict


def leaves(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    if config["lr"] > 0:
        sys.exit(3)
    yield {"accuracy": 0.5}, dict


def dies(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    if config["lr"] > 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    yield {"accuracy": 0.5}, dict


def unsaved_model(config: Mapping[str, Any], worker: Worker, state: State | None) -> Yielded:
    """Holds an object that cannot become bytes."""
    model = state["model"] if state else random.Random()
    yield {"accuracy": 0.5}, lambda: {"model": model}


def _boosted(config: Mapping[str, Any]) -> Any:
    x = np.arange(40.0).reshape(20, 2)
    data = (x, x[:, 0] > 18)
    return {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"]}, data, data


BOOSTED = xgboost_trainable(_boosted, rounds=1)


# Classes.


class ForgetsMomentum:
    """Restores the weights and not what the optimizer had learned."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.weights, self.momentum = np.zeros(3), np.zeros(3)

    def step(self) -> Mapping[str, float]:
        self.momentum = 0.9 * self.momentum + np.random.standard_normal(3)  # noqa: NPY002
        self.weights = self.weights + self.momentum
        return {"accuracy": float(self.weights.sum())}

    def save(self) -> State:
        return {"weights": self.weights, "optimizer": {"momentum": self.momentum}}

    def load(self, state: State) -> None:
        self.weights = state["weights"]


class UnseededClass(ForgetsMomentum):
    """Its numbers come from outside of the process."""

    def step(self) -> Mapping[str, float]:
        return {"accuracy": self.config["lr"] + random.SystemRandom().random()}

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.config = config

    def save(self) -> State:
        return {"weights": self.weights}


class OwnGenerator(ForgetsMomentum):
    """Its random numbers are not those of the iteration, and not in its state."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.source = np.random.default_rng(0)

    def step(self) -> Mapping[str, float]:
        self.weights = self.weights + self.source.standard_normal(3)
        return {"accuracy": float(self.weights.sum())}

    def save(self) -> State:
        return {"weights": self.weights}


class ForgetsItsEpoch(ForgetsMomentum):
    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        super().setup(config, worker)
        self.epoch = 0

    def step(self) -> Mapping[str, float]:
        self.epoch += 1
        self.weights = self.weights + 0.5**self.epoch
        return {"accuracy": float(self.weights.sum())}

    def save(self) -> State:
        return {"weights": self.weights}


class LoadsNothing(ForgetsMomentum):
    def load(self, state: State) -> None:
        state["weights"]


class Global:
    """Keeps its model where the process, not the trial, has it."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        pass

    def step(self) -> Mapping[str, float]:
        global _MODEL  # noqa: PLW0603
        _MODEL = _MODEL + np.random.standard_normal(3)  # noqa: NPY002
        return {"accuracy": float(_MODEL.sum())}

    def save(self) -> State:
        return {"model": _MODEL}

    def load(self, state: State) -> None:
        pass
