"""A sampler that learns on a table: a model proposes, and the nearest row that no trial has yet is drawn.

With `replace`, once every row has a trial, all are free again.

The model is one of `model_sampler`, on the ranks of the table's columns. Until it has enough values, rows
come in the order of `TableSampler`, so that runs with either sampler begin with the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from elastune.model.configuration import Configuration
from elastune.model.metric import Mode
from elastune.space.given_configurations import TableSampler
from elastune.space.model_sampler import STARTUP, Model, ModelSampler
from elastune.space.table_columns import TableColumns


class TableModelSampler:
    learns = True

    def __init__(
        self,
        rows: Sequence[Configuration],
        *,
        seed: int,
        mode: Mode,
        model: Model = "tpe",
        startup: int = STARTUP,
        replace: bool = False,
    ) -> None:
        self.size = None if replace else len(rows)
        self._rows = rows
        self._table = TableSampler(rows, seed=seed)
        self._columns = TableColumns(rows)
        self._model = ModelSampler(self._columns.space, seed=seed, mode=mode, model=model, startup=startup)
        self._places = {_key(row): place for place, row in enumerate(rows)}
        self._left = dict.fromkeys(self._table.order)  # places of the rows that no trial has

    def ask(self, trial: int) -> Configuration | None:
        if not self._left:
            if self.size is not None:
                return None
            self._left = dict.fromkeys(self._table.order)
        place = next(iter(self._left))
        if self._model.is_fitted:
            proposed = self._columns.space.configure(self._model.draw(trial))
            distances = self._columns.distances(proposed)
            place = min(self._left, key=distances.__getitem__)
        return self._given(trial, self._rows[place])

    def complete(self, trial: int, given: Configuration) -> Configuration:
        return self._given(trial, self._table.complete(trial, given))

    def position(self, configuration: Configuration) -> int | None:
        return self._places.get(_key(configuration))

    def fork(self, trial: int, parent: Configuration) -> Configuration:
        """As `TableSampler` does; the row remains for others."""
        config = self._table.fork(trial, parent)
        self._model.complete(trial, self._columns.point(self._places[_key(config)]))
        return config

    def tell(self, trial: int, iteration: int, value: float) -> None:
        self._model.tell(trial, iteration, value)

    def _given(self, trial: int, row: Configuration) -> Configuration:
        """The trial has this row: the model learns from it, and no other trial gets it."""
        place = self._places[_key(row)]
        self._left.pop(place, None)
        self._model.complete(trial, self._columns.point(place))
        return dict(row)


def _key(row: Configuration) -> str:
    return repr(sorted(row.items()))
