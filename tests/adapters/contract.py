"""What every adapter promises, checked on the examples: files with one trainable each."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from elastune.checkpoints.encoding import decode, encode
from elastune.checkpoints.store import Store
from elastune.model.checkpoint_rule import CheckpointRule
from elastune.model.metric import Mode
from elastune.runtime.ray.messages import CodeReference, SlotReady, WorkerSpec
from elastune.training.groups import Solo
from elastune.training.recipe import load, open_recipe
from elastune.training.running import Row
from elastune.training.worker import make_worker
from tests.runtime.real.slot_processes import Watched
from tests.test_documents import ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One adapter: its example, hyperparameters with which it learns, and the metric that shows it."""

    name: str
    metric: str
    is_loss: bool = False
    config: Mapping[str, Any]

    @property
    def path(self) -> Path:
        return ROOT / "examples" / f"with_{self.name}.py"

    def user(self) -> Any:
        """The trainable as a job would load it."""
        return load(f"{self.path}:train")


CASES = (
    Case(
        name="xgboost",
        metric="mlogloss",
        is_loss=True,
        config={"eta": 0.3, "max_depth": 3, "subsample": 0.7, "colsample_bytree": 0.5},
    ),
    Case(name="sklearn", metric="score", config={"width": 32, "lr": 0.003, "alpha": 1e-4}),
    Case(name="ray_tune", metric="accuracy", config={"lr": 0.02, "momentum": 0.9, "batch": 32}),
    Case(name="lightning", metric="accuracy", config={"lr": 0.05, "width": 32, "dropout": 0.1}),
    Case(name="keras", metric="val_accuracy", config={"lr": 0.003, "width": 32, "dropout": 0.1}),
    Case(
        name="transformers",
        metric="eval_loss",
        is_loss=True,
        config={"lr": 3e-3, "dropout": 0.1, "weight_decay": 0.01},
    ),
)
_QUICK = ("xgboost", "sklearn", "ray_tune")


def each_case() -> pytest.MarkDecorator:
    """Importing the others takes seconds, and they are not in every environment."""
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(case, id=case.name, marks=() if case.name in _QUICK else marks_of(case.name))
            for case in CASES
        ],
    )


def marks_of(name: str) -> tuple[pytest.MarkDecorator, ...]:
    missing = importlib.util.find_spec(name) is None
    return (pytest.mark.slow, pytest.mark.skipif(missing, reason=f"pip install 'elastune[{name}]'"))


def train(
    user: Any,
    config: Mapping[str, Any],
    first: int,
    last: int,
    state: bytes | None = None,
    pickles: bool = False,
) -> tuple[list[Row], bytes]:
    """The metrics of each iteration, and the state after the last, as a checkpoint has it."""
    worker = make_worker(Solo(), seed=7, threads=1)
    recipe = open_recipe(user, name="user")
    training = recipe.start(config, worker, None if state is None else decode(state, pickles=pickles))
    rows = []
    try:
        for worker.iteration in range(first, last + 1):
            row = training.step()
            if row is None:
                break
            rows.append(row)
        return rows, encode(training.save(), pickles=pickles)
    finally:
        training.close()


@contextmanager
def slot_of(case: Case, folder: Path) -> Iterator[Watched]:
    """A real slot process that has loaded the example."""
    manual = WorkerSpec(
        script=CodeReference(name=case.name, metric=case.metric, reference=f"{case.path}:train"),
        store=Store.open(folder),
        checkpoints=CheckpointRule(mode=Mode.MIN if case.is_loss else Mode.MAX),
        pickles=False,
        threads=1,
        logs=None,
        host="127.0.0.1",
        preload=(),
        paths=(str(ROOT),),
    )
    watched = Watched(manual, 1)
    try:
        watched.wait_for(SlotReady)
        yield watched
    finally:
        watched.processes.close()
