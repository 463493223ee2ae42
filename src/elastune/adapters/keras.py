"""Keras 3: an iteration is one epoch of `fit`. Weights and the optimizer's variables are saved as arrays.

Keras distributes a model over devices itself or not at all, so a trial has one slot. Where models hop, a
visit is an epoch of `fit` on one partition, and validation partitions are evaluated, as `val_loss` and so on.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from elastune.adapters.adapted_trainable import (
    Adapter,
    Make,
    adapt,
    is_visiting,
    pair_of,
    piece,
    pieces,
    require,
    visited_pieces,
)
from elastune.errors import JobError
from elastune.training.trainable import State, Trainable
from elastune.training.worker import Worker

# Random numbers differ between the partitions of an epoch.
_PARTITION = 1_000_003
_EXPECTED = "model, train[, test]: a compiled Keras model, then data as (x, y) or anything that fit takes"


def keras_trainable(make: Make, *, backend: str | None = None, **fit: Any) -> type[Trainable]:
    """A trainable from `make(config)`, which returns `model, train` or `model, train, test`.

    `train` and `test` are pairs (x, y), or datasets. Metrics are those of `fit`: `loss`, `val_loss`, and what
    the model was compiled with. `fit` are its options, such as `batch_size=32`. `backend`, such as "torch",
    applies if keras was not imported yet; then `make` has to import keras itself. With `execution: hopper`,
    `make` returns the model, and a function from a partition to (x, y), unless it has columns x and y.
    """
    require("keras", extra="keras")
    return adapt(KerasTraining, make, backend=backend, fit=fit)


class KerasTraining(Adapter):
    """One compiled model."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        if self.options["backend"] and "keras" not in sys.modules:
            os.environ["KERAS_BACKEND"] = self.options["backend"]
        import keras  # noqa: PLC0415

        self.worker = worker
        made = self.make(config)
        if is_visiting(worker):
            self.model, prepare = visited_pieces(made)
            train, self.test = (prepare or pair_of)(worker.data), None
        else:
            self.model, train, self.test = pieces(made, least=2, most=3, expected=_EXPECTED)
        piece(self.model, isinstance(self.model, keras.Model), expected=_EXPECTED)
        piece(self.model, self.model.compiled, expected="a model that was compiled: model.compile(...)")
        self.train = train if isinstance(train, tuple) else (train,)
        # Callbacks have state: each trial has its own.
        self.fit = {"verbose": 0, **copy.deepcopy(self.options["fit"])}
        self.callbacks = self.fit.pop("callbacks", [])

    def step(self) -> Mapping[str, Any]:
        import keras  # noqa: PLC0415

        number, seed = self.worker.iteration, self.worker.seed + self.worker.iteration
        seed += _PARTITION * (self.worker.partition or 0)
        # The first `fit` of a model draws random numbers while it builds, the others do not.
        again = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: keras.utils.set_random_seed(seed))
        history = self.model.fit(
            *self.train,
            validation_data=self.test,
            initial_epoch=number - 1,
            epochs=number,
            callbacks=[*self.callbacks, again],
            **self.fit,
        )
        return {name: values[-1] for name, values in history.history.items()}

    def evaluate(self) -> Mapping[str, Any]:
        """On the validation partition that `setup` got."""
        options = {name: self.fit[name] for name in ("batch_size", "verbose") if name in self.fit}
        found = self.model.evaluate(*self.train, return_dict=True, **options)
        return {f"val_{name}": value for name, value in found.items()}

    def save(self) -> State:
        return {
            "model": [np.asarray(each) for each in variables_of(self.model)],
            "optimizer": [np.asarray(each) for each in learned_of(self.model)],
        }

    def load(self, state: State) -> None:
        if not self.model.built:
            raise JobError(
                "the Keras model is not built, so its state cannot be loaded; expected one that begins with "
                "keras.Input(shape), or model.build(shape) in make(config)"
            )
        self.model.optimizer.build(self.model.trainable_variables)
        for variables, values in (
            (variables_of(self.model), state["model"]),
            (learned_of(self.model), state["optimizer"]),
        ):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)


def variables_of(model: Any) -> list[Any]:
    """Weights, and the seeds of layers such as Dropout; not the metrics, which are reset each epoch."""
    metrics = {id(each) for each in model.metrics_variables}
    return [each for each in model.variables if id(each) not in metrics]


def learned_of(model: Any) -> list[Any]:
    """Of the optimizer: all but the learning rate, which the config decides."""
    optimizer = getattr(model, "optimizer", None)
    return [each for each in optimizer.variables if each.name != "learning_rate"] if optimizer else []
