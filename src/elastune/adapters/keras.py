"""Keras 3: an iteration is one epoch of `fit`. Weights and the optimizer's variables are saved as arrays.

Keras distributes a model over devices itself or not at all, so a trial has one slot.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from elastune.adapters.adapting import Adapter, Make, adapt, piece, pieces, require
from elastune.errors import JobError
from elastune.training.trainable import State, Trainable
from elastune.training.worker import Worker

_EXPECTED = "model, train[, test]: a compiled Keras model, then data as (x, y) or anything that fit takes"


def keras_trainable(make: Make, *, backend: str | None = None, **fit: Any) -> type[Trainable]:
    """A trainable from `make(config)`, which returns `model, train` or `model, train, test`.

    `train` and `test` are pairs (x, y), or datasets. Metrics are those of `fit`: `loss`, `val_loss`, and what
    the model was compiled with. `fit` are its options, such as `batch_size=32`. `backend`, such as "torch",
    applies if keras was not imported yet; then `make` has to import keras itself.
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
        self.model, train, self.test = pieces(self.make(config), least=2, most=3, expected=_EXPECTED)
        piece(self.model, isinstance(self.model, keras.Model), expected=_EXPECTED)
        piece(self.model, self.model.compiled, expected="a model that was compiled: model.compile(...)")
        self.train = train if isinstance(train, tuple) else (train,)
        # Callbacks have state: each trial has its own.
        self.fit = {"verbose": 0, **copy.deepcopy(self.options["fit"])}
        self.callbacks = self.fit.pop("callbacks", [])

    def step(self) -> Mapping[str, Any]:
        import keras  # noqa: PLC0415

        number, seed = self.worker.iteration, self.worker.seed + self.worker.iteration
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

    def save(self) -> State:
        return {
            "model": [np.asarray(each) for each in self._variables()],
            "optimizer": [np.asarray(each) for each in self._learned()],
        }

    def load(self, state: State) -> None:
        if not self.model.built:
            raise JobError(
                "the Keras model is not built, so its state cannot be loaded; expected one that begins with "
                "keras.Input(shape), or model.build(shape) in make(config)"
            )
        self.model.optimizer.build(self.model.trainable_variables)
        for variables, values in ((self._variables(), state["model"]), (self._learned(), state["optimizer"])):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

    def _variables(self) -> list[Any]:
        """Weights, and the seeds of layers such as Dropout; not the metrics, which are reset each epoch."""
        metrics = {id(each) for each in self.model.metrics_variables}
        return [each for each in self.model.variables if id(each) not in metrics]

    def _learned(self) -> list[Any]:
        """All but the learning rate, which the config decides."""
        return [each for each in self.model.optimizer.variables if each.name != "learning_rate"]
