"""scikit-learn: an iteration is one pass over the training data with `partial_fit`, batch by batch.

Workers cannot share one estimator, so a trial has one slot. Reading a state must run no code, so it has plain
values only. They are filled into a template: the same estimator after a first `partial_fit`. Hyperparameters,
of the estimator or of an object inside it, stay those of the template.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from elastune.adapters.adapted_trainable import Adapter, Make, adapt, checked_count, piece, pieces, require
from elastune.errors import JobError
from elastune.training.trainable import State, Trainable
from elastune.training.worker import Worker

_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.ndarray, np.generic)
_ALIAS = "same as"
_RANDOM = "random"
_COLUMNS = "columns first"
_GLOBAL: Any = np.random.mtrand._rand  # noqa: SLF001  scikit-learn's default for random_state


class EstimatorReader:
    """`_places` has the first path of each array: some estimators have the same array in two attributes.

    Raises `JobError` where plain data do not suffice."""

    def __init__(self) -> None:
        self._places: dict[int, str] = {}

    def attributes(self, thing: Any, path: str) -> dict[str, Any]:
        return {name: self.value(value, f"{path}.{name}") for name, value in _state(thing)}

    def value(self, value: Any, path: str) -> Any:
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                raise _inexpressible(path, "an array of Python objects")
            first = self._places.setdefault(id(value), path)
            if first != path:
                return {_ALIAS: first}
            # Sums are added in memory order, so the last digits depend on it.
            return {_COLUMNS: value.T} if value.flags.fnc else value
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, list | tuple):
            return type(value)(self.value(each, f"{path}[{n}]") for n, each in enumerate(value))
        if isinstance(value, np.random.RandomState):
            return {_RANDOM: value.get_state(legacy=False)}
        if isinstance(value, dict) or callable(value):
            raise _inexpressible(path, f"a {type(value).__name__}")
        return self.attributes(value, path)


class EstimatorWriter:
    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def attributes(self, thing: Any, values: Mapping[str, Any], path: str) -> None:
        for name, value in values.items():
            if name == "learning_rate" and getattr(thing, "lr_schedule", "") == "constant":
                continue  # of an optimizer inside a network: a hyperparameter
            made = self.value(getattr(thing, name, None), value, f"{path}.{name}")
            if made is not None or hasattr(thing, name):
                setattr(thing, name, made)

    def value(self, old: Any, value: Any, path: str) -> Any:
        if isinstance(value, list | tuple):
            known = old if isinstance(old, list | tuple) and len(old) == len(value) else [None] * len(value)
            return type(value)(self.value(known[n], each, f"{path}[{n}]") for n, each in enumerate(value))
        if not isinstance(value, Mapping):
            if isinstance(value, np.ndarray):
                self._arrays[path] = value = value.copy()
            return value
        if _COLUMNS in value:
            self._arrays[path] = made = np.array(value[_COLUMNS]).T
            return made
        if _ALIAS in value:
            return self._arrays[value[_ALIAS]]
        if _RANDOM in value:
            random = np.random.RandomState()
            random.set_state(value[_RANDOM])
            return random
        if old is not None:
            self.attributes(old, value, path)
        return old


def _state(thing: Any) -> Iterator[tuple[str, Any]]:
    """All that is no hyperparameter. Objects written in C have no attributes, and stay the template's."""
    given = inspect.signature(type(thing)).parameters if hasattr(thing, "__dict__") else {}
    for name, value in getattr(thing, "__dict__", {}).items():
        if name not in given and value is not _GLOBAL:  # the global one is seeded for each iteration
            yield name, value


def _inexpressible(path: str, what: str) -> JobError:
    return JobError(
        f"{path} is {what}, which cannot be saved as plain data; "
        "save the estimator itself with sklearn_trainable(make, pickled=True) and `pickles: true` in the job"
    )


Score: TypeAlias = Callable[[Any, Any], float | Mapping[str, Any]]

_EXPECTED = "estimator, train, test: an estimator with partial_fit, then data as (x, y), or x alone"


def sklearn_trainable(
    make: Make, *, batch: int = 64, score: Score | None = None, pickled: bool = False
) -> type[Trainable]:
    """A trainable from `make(config)`, which returns `estimator, train, test`.

    `train` and `test` are pairs (x, y), or x alone. The metric is `score`, that of the estimator on `test`;
    or the result of `score(estimator, test)`, a number or several by name. With `pickled` the estimator
    itself is saved, and the job needs `pickles: true`; otherwise its learned values are saved as plain data.
    """
    require("sklearn", extra="sklearn")
    return adapt(PartialFit, make, batch=checked_count(batch, "batch"), score=score, pickled=pickled)


def _refuse_whole_fits(estimator: Any, name: str) -> None:
    """Of an estimator such as a random forest, which is trained in one call."""
    if hasattr(estimator, "fit") and not hasattr(estimator, "partial_fit"):
        raise JobError(
            f"make(config) gave a {type(estimator).__name__}, which has no partial_fit and so no iterations; "
            "tune it as a black box (docs/how-to/black-boxes.md), with max_iterations: 1 and a function "
            "`def score(config):` of these two lines instead of sklearn_trainable:\n"
            f"    estimator, train, test = {name if name.isidentifier() else 'make'}(config)\n"
            "    return estimator.fit(*train).score(*test)"
        )


class PartialFit(Adapter):
    """One estimator with `partial_fit`."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        from sklearn.base import is_classifier  # noqa: PLC0415

        self.worker = worker
        self.estimator, train, self.test = pieces(self.make(config), least=3, most=3, expected=_EXPECTED)
        _refuse_whole_fits(self.estimator, getattr(self.make, "__name__", ""))
        piece(self.estimator, hasattr(self.estimator, "partial_fit"), expected=_EXPECTED)
        self.train = train if isinstance(train, tuple) else (train,)
        piece(train, len(self.train) in (1, 2), expected=_EXPECTED)
        # The first batch may not have all classes; scikit-learn needs them at the first call.
        self.classes = np.unique(self.train[1]) if is_classifier(self.estimator) else None

    def step(self) -> Mapping[str, Any] | float:
        for rows in self.worker.batches(self.train, self.options["batch"]):
            self._fit(rows)
        if self.options["score"] is not None:
            given: Mapping[str, Any] | float = self.options["score"](self.estimator, self.test)
            return given
        test = self.test if isinstance(self.test, tuple) else (self.test,)
        return {"score": self.estimator.score(*test)}

    def save(self) -> State:
        if self.options["pickled"]:
            return {"estimator": self.estimator}
        return {"estimator": EstimatorReader().attributes(self.estimator, type(self.estimator).__name__)}

    def load(self, state: State) -> None:
        saved = state["estimator"]
        if not isinstance(saved, Mapping):
            self.estimator = saved.set_params(**self.estimator.get_params(deep=False))
            return
        self._fit(tuple(column[: self.options["batch"]] for column in self.train))
        EstimatorWriter().attributes(self.estimator, saved, type(self.estimator).__name__)

    def _fit(self, rows: tuple[Any, ...]) -> None:
        extra = {} if self.classes is None else {"classes": self.classes}
        self.estimator.partial_fit(*rows, **extra)
