"""A training written as functions, as in Cerebro (VLDB 2020, section 4.1 and appendix A).

`model_fn(config)` builds, `train_fn(data, model, optimizer, config)` trains on one partition and returns its
metrics. Checkpoints are made and restored around them. It is for runs with `execution: hopper`, where the
data of a visit are `worker.data`.

The paper evaluates with `train_fn` too, with the parameters marked as non-trainable. Here that means: the
optimizer is None, no gradient is computed, and the model is in evaluation mode, even if `train_fn` calls
`model.train()`. So dropout is off and batch norm learns nothing from validation data. With `evaluate_fn`,
`train_fn` need not check for the optimizer.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from elastune.adapters.adapted_trainable import Adapter, Make, adapt, options_of, renew
from elastune.adapters.model_states import has_state, has_weights, is_estimator, restore, state_of
from elastune.errors import JobError
from elastune.training.batches import open_table
from elastune.training.trainable import State, Trainable
from elastune.training.worker import Worker
from elastune.wording import seen, several

Metrics: TypeAlias = Mapping[str, object] | float

_MODEL = (
    "model, or model, optimizer, or more, each with state_dict() and load_state_dict(state), get_weights() "
    "and set_weights(weights) (Keras), or partial_fit (scikit-learn)"
)
_FEW_ROWS = 32
_IN_EVALUATION = (
    "on validation data its optimizer is None and no gradient is computed: expected a train_fn that trains "
    "only `if optimizer is not None`, or an evaluate_fn(data, model, config)"
)


def from_functions(
    model_fn: Make,
    train_fn: Callable[..., Metrics],
    *,
    input_fn: Callable[[str], Any] | None = None,
    evaluate_fn: Callable[..., Metrics] | None = None,
    name: str | None = None,
) -> type[Trainable]:
    """A trainable from Cerebro's functions.

    `model_fn(config)` returns `model, optimizer`, or a model alone, or more objects with a state, which
    `train_fn(data, model, optimizer, config)` gets as a tuple in place of the optimizer. A function with an
    argument called `worker` gets that as well. `evaluate_fn(data, model, config)` returns the metrics of a
    validation partition. `input_fn(path)` is only kept in the class, for use as the `reader` of
    `elastune.data.register`.
    """
    _check(model_fn, "model_fn", "config")
    _check(train_fn, "train_fn", "data", "model", "optimizer", "config")
    if evaluate_fn is not None:
        _check(evaluate_fn, "evaluate_fn", "data", "model", "config")
    if input_fn is not None:
        _check(input_fn, "input_fn", "path")
    made = adapt(Functions, model_fn, train=train_fn, evaluate=evaluate_fn)
    made.input_fn = None if input_fn is None else staticmethod(input_fn)
    if name is not None:
        made.__name__ = made.__qualname__ = name
    return made


class Functions(Adapter):
    """One model that visits partitions. `parts` is what `model_fn` returned, in its order."""

    input_fn: Any = None

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.config, self.worker = config, worker
        made = self.make(config)
        self.parts: tuple[Any, ...] = made if isinstance(made, tuple) else (made,)
        if not self.parts or not all(has_state(part) for part in self.parts):
            kinds = several(type(part).__name__ for part in self.parts)
            raise JobError(f"model_fn(config) returned {kinds}; expected {_MODEL}")
        self.model = self.parts[0]
        if hasattr(self.model, "to"):
            self.model.to(worker.device)  # in place: the optimizer keeps its parameters
        self.began = options_of(filter(_is_optimizer, self.parts))

    def step(self) -> Metrics:
        others = self.parts[1:]
        optimizer = others[0] if len(others) == 1 else others or None
        return self._call("train_fn", self.options["train"], self.model, optimizer, self.config)

    def evaluate(self) -> Metrics:
        """The metrics of `worker.data`; the model does not change."""
        is_torch_like = not (has_weights(self.model) or is_estimator(self.model))
        if not is_torch_like and self.options["evaluate"] is None:
            raise JobError(
                f"model_fn(config) returned a {type(self.model).__name__}, which train_fn would train on the "
                "validation data; expected an evaluate_fn(data, model, config) that returns its metrics"
            )
        with _frozen(self.model):
            if self.options["evaluate"] is not None:
                return self._call("evaluate_fn", self.options["evaluate"], self.model, self.config)
            try:
                return self._call("train_fn", self.options["train"], self.model, None, self.config)
            except JobError:
                raise
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise JobError(f"train_fn failed in evaluation with {what}; {_IN_EVALUATION}") from error

    def save(self) -> State:
        return {"parts": [state_of(part) for part in self.parts], "began": self.began}

    def load(self, state: State) -> None:
        pairs = list(zip(self.parts, state["parts"], strict=True))
        optimizers = [each for part, each in pairs if _is_optimizer(part)]
        schedules = [each for _, each in pairs if "base_lrs" in each]
        renew(optimizers, schedules, state["began"], self.began)
        self.parts = tuple(restore(part, each, self._fit_a_little) for part, each in pairs)
        self.model = self.parts[0]

    def _fit_a_little(self, model: Any) -> None:
        """For the template of an estimator, whose learned values are then replaced."""
        table = open_table(self.worker.data, "cpu")
        few = table.pick(np.arange(min(table.count, _FEW_ROWS)))
        extra = {"worker": self.worker} if _takes_worker(self.options["train"]) else {}
        self.options["train"](few, model, None, self.config, **extra)
        self.worker.show(self.worker.data, partition=self.worker.partition or 0, rows=self.worker.rows or 0)

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Metrics:
        data = getattr(self.worker, "data", None)
        if data is None:
            raise JobError(
                f"{name} has no data to work on: a trainable from_functions visits partitions; expected a "
                "job with `execution: hopper` and `data`"
            )
        extra = {"worker": self.worker} if _takes_worker(function) else {}
        metrics: Metrics | None = function(data, *arguments, **extra)
        if metrics is None:
            raise JobError(f"{name} returned nothing; expected its metrics, such as {{'loss': 0.3}}")
        return metrics


@contextmanager
def _frozen(model: Any) -> Iterator[None]:
    """Non-trainable; `model.train()`, with which most training functions begin, has no effect."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    trained = [each for each in model.parameters() if each.requires_grad]
    model.eval()
    model.train = lambda mode=True: model  # noqa: ARG005
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        with torch.no_grad():
            yield
    finally:
        del model.train
        for parameter in trained:
            parameter.requires_grad_(True)
        for module, mode in modes:
            module.training = mode


def _check(function: object, name: str, *arguments: str) -> None:
    expected = f"{name}({', '.join(arguments)})"
    if not callable(function) or isinstance(function, type):
        raise JobError(f"{name} is {seen(function)}; expected a function {expected}")
    extra = {"worker": None} if _takes_worker(function) and name != "model_fn" else {}
    try:
        inspect.signature(function).bind(*arguments, **extra)
    except TypeError as error:
        raise JobError(f"{name} cannot be called as {expected}: {error}") from None
    except ValueError:
        pass  # functions written in C may have no signature


def _takes_worker(function: Callable[..., Any]) -> bool:
    try:
        return "worker" in inspect.signature(function).parameters
    except ValueError:
        return False


def _is_optimizer(part: object) -> bool:
    return hasattr(part, "param_groups")
