"""States as plain data of models without `state_dict`: Keras-like ones and estimators of scikit-learn.

A Keras model has its variables and those of its optimizer; anything else with `get_weights` and `set_weights`
has those. An estimator with `partial_fit` has its learned attributes; they are filled into a template, the
same estimator after a fit of a few rows (see `adapters.sklearn`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from elastune.adapters.adapted_trainable import plain
from elastune.adapters.keras import learned_of, variables_of
from elastune.adapters.sklearn import EstimatorReader, EstimatorWriter
from elastune.errors import JobError
from elastune.training.trainable import State


def has_state(part: object) -> bool:
    return _has_state_dict(part) or has_weights(part) or is_estimator(part)


def has_weights(part: object) -> bool:
    return _has_methods(part, "get_weights", "set_weights")


def is_estimator(part: object) -> bool:
    return _has_methods(part, "partial_fit", "get_params")


def _has_state_dict(part: object) -> bool:
    return _has_methods(part, "state_dict", "load_state_dict")


def _has_methods(part: object, *names: str) -> bool:
    return all(callable(getattr(part, name, None)) for name in names)


def state_of(part: Any) -> State:
    if _is_keras(part):  # first: with torch below it, it is a torch module as well
        return {
            "model": [np.asarray(each) for each in variables_of(part)],
            "optimizer": [np.asarray(each) for each in learned_of(part)],
        }
    if _has_state_dict(part):
        return plain(part.state_dict())
    if is_estimator(part):
        return {"estimator": EstimatorReader().attributes(part, type(part).__name__)}
    return {"weights": [np.asarray(each) for each in part.get_weights()]}


def restore(part: Any, state: State, fit_a_little: Callable[[Any], object]) -> Any:
    """The part with this state. `fit_a_little` trains an estimator on a few rows, for its template."""
    if _is_keras(part):
        _restore_keras(part, state)
    elif _has_state_dict(part):
        part.load_state_dict(state)
    elif is_estimator(part):
        template = copy.deepcopy(part)
        fit_a_little(template)
        EstimatorWriter().attributes(template, state["estimator"], type(part).__name__)
        return template
    else:
        part.set_weights(state["weights"])
    return part


def _restore_keras(model: Any, state: State) -> None:
    if not model.built:
        raise JobError(
            "the Keras model is not built, so its state cannot be loaded; expected one that begins with "
            "keras.Input(shape), or model.build(shape) in model_fn(config)"
        )
    if getattr(model, "optimizer", None) is not None:
        model.optimizer.build(model.trainable_variables)
    for variables, values in (
        (variables_of(model), state["model"]),
        (learned_of(model), state["optimizer"]),
    ):
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def _is_keras(part: Any) -> bool:
    return any(each.__module__.split(".")[0] == "keras" for each in type(part).__mro__)
