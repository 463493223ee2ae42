"""scikit-learn: an iteration is one pass over the training data with `partial_fit`, batch by batch.

One estimator cannot be shared among workers, so gangs do not help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from elastune.adapters.adapting import Adapter, Make, adapt, checked_count, piece, pieces, require
from elastune.adapters.fitted import fill, learned
from elastune.training import State, Trainable, Worker

Score: TypeAlias = Callable[[Any, Any], float | Mapping[str, Any]]

_EXPECTED = "estimator, train, test: an estimator with partial_fit, then data as (x, y), or x alone"


def sklearn_trainable(
    make: Make, *, batch: int = 64, score: Score | None = None, pickled: bool = False
) -> type[Trainable]:
    """A trainable from `make(config)`, which returns `estimator, train, test`.

    `train` and `test` are pairs (x, y), or x alone. The metric is `score`, that of the estimator on `test`;
    or what `score(estimator, test)` gives, a number or several by name. With `pickled` the estimator is saved
    as it is, and the job has to say `pickles: true`; otherwise what it has learned is saved as plain data.
    """
    require("sklearn", extra="sklearn")
    return adapt(PartialFit, make, batch=checked_count(batch, "batch"), score=score, pickled=pickled)


class PartialFit(Adapter):
    """One estimator that learns in pieces."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        from sklearn.base import is_classifier  # noqa: PLC0415

        self.worker = worker
        made = pieces(self.make(config), least=3, most=3, expected=_EXPECTED)
        self.estimator, train, self.test = made
        piece(self.estimator, hasattr(self.estimator, "partial_fit"), expected=_EXPECTED)
        self.train = train if isinstance(train, tuple) else (train,)
        piece(train, len(self.train) in (1, 2), expected=_EXPECTED)
        # The first batch need not have all classes; scikit-learn wants to know them at once.
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
        return {"estimator": self.estimator if self.options["pickled"] else learned(self.estimator)}

    def load(self, state: State) -> None:
        saved = state["estimator"]
        if not isinstance(saved, Mapping):
            self.estimator = saved.set_params(**self.estimator.get_params(deep=False))
            return
        self._fit(tuple(column[: self.options["batch"]] for column in self.train))
        fill(self.estimator, saved)

    def _fit(self, rows: tuple[Any, ...]) -> None:
        if self.classes is None:
            self.estimator.partial_fit(*rows)
        else:
            self.estimator.partial_fit(*rows, classes=self.classes)
