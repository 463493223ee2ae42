"""XGBoost: an iteration is some boosting rounds. Workers cannot share one model, so a trial has one slot.

A booster does not save its random state. So where rows or columns are drawn, every iteration begins with a
booster that was read from its saved form, with its own seed: then a pause changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from elastune.adapters.adapted_trainable import Adapter, Make, adapt, checked_count, piece, pieces, require
from elastune.training.trainable import State, Trainable
from elastune.training.worker import Worker

_EXPECTED = "params, train, test: the parameters of xgboost.train, then data as (x, y) or a DMatrix"


def xgboost_trainable(make: Make, *, rounds: int = 10) -> type[Trainable]:
    """A trainable from `make(config)`, which returns `params, train, test`.

    `train` is a pair (x, y) or a DMatrix; so is `test`, or a mapping of names to them. Metrics are those of
    `eval_metric` on `test`, such as `logloss`; where it is a mapping, such as `valid_logloss`.
    """
    require("xgboost", extra="xgboost")
    return adapt(BoostedTrees, make, rounds=checked_count(rounds, "rounds"))


class BoostedTrees(Adapter):
    """One booster, grown by `rounds` rounds per iteration."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        params, train, test = pieces(self.make(config), least=3, most=3, expected=_EXPECTED)
        piece(params, isinstance(params, Mapping), expected=_EXPECTED)
        defaults = {"seed": worker.seed, "verbosity": 1}
        if threads := os.environ.get("OMP_NUM_THREADS"):  # the limit of a worker
            defaults["nthread"] = int(threads)
        self.params = {**defaults, **params}
        self.train = _matrix(train)
        named = test if isinstance(test, Mapping) else {"": test}
        self.tests = {f"{name}_" if name else "": _matrix(data) for name, data in named.items()}
        self.load(None)

    def step(self) -> Mapping[str, float]:
        first = self.booster.num_boosted_rounds()
        if first and _draws(self.params):
            self.load(self.save())
        for number in range(first, first + self.options["rounds"]):
            self.booster.update(self.train, number)
        row = {}
        for prefix, data in self.tests.items():
            # "[9]\ttest-logloss:0.31\ttest-auc:0.97": what xgboost.train reads as well.
            for each in self.booster.eval_set([(data, "test")], number).split("\t")[1:]:
                name, _, value = each.removeprefix("test-").rpartition(":")
                row[prefix + name] = float(value)
        return row

    def save(self) -> State:
        return {"booster": bytes(self.booster.save_raw("ubj"))}

    def load(self, state: State) -> None:
        import xgboost  # noqa: PLC0415

        self.booster = xgboost.Booster(self.params, [self.train, *self.tests.values()])
        if state is not None:
            self.booster.load_model(bytearray(state["booster"]))
            params = {**self.params, "seed": self.params["seed"] + self.booster.num_boosted_rounds()}
            self.booster.set_param(_pairs(params))


def _draws(params: Mapping[str, Any]) -> bool:
    drawn = any(name.startswith(("subsample", "colsample")) for name in params)
    return drawn or params.get("booster") == "dart"


def _matrix(data: Any) -> Any:
    import xgboost  # noqa: PLC0415

    if isinstance(data, xgboost.DMatrix):
        return data
    piece(data, isinstance(data, tuple) and len(data) == 2, expected=_EXPECTED)
    return xgboost.DMatrix(data[0], label=data[1])


def _pairs(params: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The form that `set_param` takes: several metrics one by one."""
    several = {"eval_metric"} if isinstance(params.get("eval_metric"), list | tuple) else set()
    return [
        (name, each) for name, value in params.items() for each in (value if name in several else [value])
    ]
